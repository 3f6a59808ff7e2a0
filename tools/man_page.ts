/**
 * The manual page, in the macros of man(7), from the tables that the parser reads.
 *
 * @module
 */
import {
  COMMAND_ROWS,
  type CommandName,
  COMMANDS,
  ownFlagsOf,
  SHARED_FLAG_GROUPS,
} from "../lib/config/commands.ts";
import type { Flag } from "../lib/config/setting.ts";
import { capitalized } from "../lib/model/values/text.ts";

const DESCRIPTION = `signpost runs on every node of a Kubernetes cluster. It watches Services,
EndpointSlices, its Node and ServiceCIDRs. It writes rules into the kernel that send connections to virtual
IPs and node ports of Services to their endpoints. The rules are nftables rules, or iptables rules if
nftables does not work. signpost takes the flags and the configuration file of kube-proxy.`;

const FILES: readonly (readonly [string, string])[] = [
  ["/etc/signpost/config.yaml", "The configuration that the systemd unit names."],
  ["/var/lib/signpost/state.json.gz", "The last complete state, for starts without an API server."],
  [
    "/run/signpost/signpost.sock",
    "The socket at which the daemon answers signpost status and other commands.",
  ],
];

const ENVIRONMENT: readonly (readonly [string, string])[] = [
  ["FORCE_COLOR", "Not empty: colours also without a terminal; 0: no colours."],
  ["NO_COLOR", "Not empty: no colours, not even on a terminal."],
  [
    "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT",
    "The address of the API server, in a pod without --kubeconfig.",
  ],
  ["NOTIFY_SOCKET, WATCHDOG_USEC", "The socket and watchdog of systemd."],
];

/** Returns the page, ending with a line feed. It has no date, so it changes only with the parser. */
export function manPage(): string {
  return [
    `.\\" Made by deno task man; do not edit.`,
    `.TH SIGNPOST 1 "" "signpost" "User Commands"`,
    section("NAME", `signpost \\- a kube-proxy replacement for a Linux node`),
    section("SYNOPSIS", synopsis()),
    section("DESCRIPTION", escape(DESCRIPTION)),
    section("COMMANDS", COMMANDS.map(commandText).join("\n")),
    section(
      "OPTIONS",
      SHARED_FLAG_GROUPS.map(({ title, flags }) =>
        [`.SS ${escape(title)}`, ...flags.map(flagText)].join("\n")
      ).join("\n"),
    ),
    section("FILES", FILES.map(([name, text]) => item(`\\fI${escape(name)}\\fR`, text)).join("\n")),
    section(
      "ENVIRONMENT",
      ENVIRONMENT.map(([name, text]) => item(`\\fB${escape(name)}\\fR`, text)).join("\n"),
    ),
    section("SEE ALSO", ".BR nft (8),\n.BR iptables (8),\n.BR conntrack (8),\n.BR systemd (1)"),
  ].join("\n") + "\n";
}

/** Returns the usage lines of all commands. */
function synopsis(): string {
  const lines = COMMANDS.flatMap((name) => COMMAND_ROWS[name].usage);
  return [...lines, "help [COMMAND]"].map((line) => escape(`signpost ${line}`)).join("\n.br\n");
}

function commandText(name: CommandName): string {
  const facts = COMMAND_ROWS[name];
  const paragraphs = (facts.about ?? "").split("\n\n").filter((part) => part !== "")
    .map((part) => `.PP\n${escape(part)}`);
  return [
    `.SS signpost ${name}`,
    escape(`${capitalized(facts.summary)}.`),
    ...paragraphs,
    ...ownFlagsOf(name).map(flagText),
    ".PP\nExamples:",
    `.nf\n.RS\n${facts.examples.map(escape).join("\n")}\n.RE\n.fi`,
    ".PP\nExit codes:",
    ...facts.exitCodes.map(([code, text]) => item(`${code}`, `${capitalized(text)}.`)),
  ].join("\n");
}

function flagText({ name, letter, value, help }: Flag): string {
  const long = `\\fB${escape(`--${name}`)}\\fR`;
  const short = letter === undefined ? "" : `\\fB${escape(`-${letter}`)}\\fR, `;
  const operand = value === undefined ? "" : ` \\fI${escape(value)}\\fR`;
  return item(`${short}${long}${operand}`, help);
}

function section(title: string, text: string): string {
  return `.SH ${title}\n${text}`;
}

/** @param head in troff already */
function item(head: string, text: string): string {
  return `.TP\n${head}\n${escape(text)}`;
}

/** Escapes a text, so that troff prints it unchanged: no escapes, no lines that look like requests. */
function escape(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^(?=[.'])/gm, "\\&");
}

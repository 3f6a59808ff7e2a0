/**
 * The help text.
 *
 * @module
 */
import { formatDocPage, getDocPageSync } from "@optique/core";
import type { CommandName } from "./flags/flag.ts";
import { UNUSED_FLAGS } from "./flags/unused.ts";
import { commandGrammar } from "./grammar.ts";

const INTRODUCTION: Readonly<Record<CommandName, string>> = {
  run: `signpost: holds this node's kernel to the Services of its cluster

Usage:
  signpost [run] [flags]        run the daemon
  signpost --once [flags]       print the script for the present state; touch nothing
  signpost cleanup [flags]      remove signpost's rules, and kube-proxy's if asked
  signpost COMMAND --help       the flags of a command

Flags are --flag=value or --flag value; they win over the file that --config names.
A switch stands alone or has =true or =false.`,
  cleanup: `signpost cleanup: removes every rule that signpost made

Usage:
  signpost cleanup [--kube-proxy] [--dry-run] [flags]`,
};

const EXAMPLES: Readonly<Record<CommandName, readonly string[]>> = {
  run: [
    "signpost --config /etc/signpost/config.yaml",
    "signpost --kubeconfig /etc/signpost/kubeconfig --cluster-cidr 10.244.0.0/16",
    "signpost --once --manifests examples/ | nft -c -f -",
    "signpost --once -o json --manifests services.yaml --proxy-mode iptables",
  ],
  cleanup: ["signpost cleanup --dry-run", "signpost cleanup --kube-proxy"],
};

const EXIT_CODES = `Exit codes:
  0  done, or stopped by a signal; rules stay in the kernel
  1  cannot work: no nft or iptables, no permission, a kernel without what is needed
  2  the command line or the configuration is wrong; nothing was touched`;

/** The help text of a command, ending with a line feed. */
export function helpText(command: CommandName): string {
  const page = getDocPageSync(commandGrammar(command), []);
  const sections = (page?.sections ?? [])
    .filter(({ title }) => title !== UNUSED_FLAGS.title)
    .map(({ title, entries }) => ({ title: title ?? "", entries }));
  const flags = formatDocPage("signpost", { sections }, {
    colors: false,
    showUsage: false,
    termWidth: 46,
  });
  const unused = UNUSED_FLAGS.flags.filter(({ refused }) => refused === undefined);
  const examples = EXAMPLES[command].map((line) => `  ${line}`).join("\n");
  return [
    INTRODUCTION[command],
    flags.trim(),
    `${UNUSED_FLAGS.title}:\n${unused.map(({ name }) => `  --${name}`).join("\n")}`,
    `Examples:\n${examples}`,
    EXIT_CODES,
  ].join("\n\n") + "\n";
}

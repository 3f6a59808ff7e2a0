/**
 * What help texts, completion and the man page say of each command.
 *
 * @module
 */
import type { CommandName, FlagGroup } from "./flag.ts";

/** What a command is. */
export interface CommandFacts {
  /** What it does, in a few words. */
  readonly summary: string;
  /** The first lines of its help text. */
  readonly introduction: string;
  readonly examples: readonly string[];
  /** By code, what it means. */
  readonly exitCodes: readonly (readonly [code: number, meaning: string])[];
  /** Whether other words than flags may follow it. */
  readonly takesWords: boolean;
  /** Whether its help text shows a group of flags; it takes all of the daemon's in any case. */
  readonly shows: (group: FlagGroup) => boolean;
}

const RUN_CODES: CommandFacts["exitCodes"] = [
  [0, "done, or stopped by a signal; rules stay in the kernel"],
  [1, "cannot work: no nft or iptables, no permission, a kernel without what is needed"],
  [2, "the command line or the configuration is wrong; nothing was touched"],
];

const CANNOT = "the command line is wrong, or the objects or the kernel cannot be read";

const PRINTED: CommandFacts["exitCodes"] = [[0, "printed"], [2, "the command line is wrong"]];

/** Commands that need no configuration. */
const informs = ({ title }: FlagGroup): boolean => title === "Information";

const QUERY_GROUPS: ReadonlySet<string> = new Set([
  "What to do",
  "Sources",
  "Rules",
  "Process and logs",
  "Information",
]);

/** Commands that only look accept the daemon's other flags too, so that its command line can be reused. */
const shows = ({ title }: FlagGroup): boolean => QUERY_GROUPS.has(title);

const DAEMON_FLAGS =
  `Without --config, --kubeconfig, --master or --manifests it has the configuration and the objects of the
daemon that runs on this node, which it asks at --socket. If none answers, it reads the objects that
/etc/signpost/config.yaml names, for --timeout at most, else the state file. Nothing is changed.`;

/** All commands in the order of the help text. */
export const COMMAND_FACTS: Readonly<Record<CommandName, CommandFacts>> = {
  run: {
    summary: "run the daemon",
    introduction: `signpost: holds this node's kernel to the Services of its cluster

Usage:
  signpost [run] [flags]        run the daemon
  signpost --once [flags]       print the script for the present state; touch nothing
  signpost check                what would keep signpost from working on this node
  signpost cleanup [flags]      remove signpost's rules, and kube-proxy's if asked
  signpost explain NAME|PACKET  what happens to a Service or a packet here, and why
  signpost verify               compare the kernel with what it should hold
  signpost status               ask the running daemon how it is
  signpost top                  the connections of each Service, the busiest first
  signpost diff --manifests F   what applying objects would change in the kernel
  signpost completions SHELL    a completion script for bash, zsh or fish
  signpost version              what this program is made of
  signpost licenses             the licences of what is in this program
  signpost COMMAND --help       the flags of a command

Flags are --flag=value or --flag value; they win over the file that --config names.
A switch stands alone or has =true or =false.`,
    examples: [
      "signpost --config /etc/signpost/config.yaml",
      "signpost --kubeconfig /etc/signpost/kubeconfig --cluster-cidr 10.244.0.0/16",
      "signpost --once --manifests examples/ | nft -c -f -",
      "signpost --once -o json --manifests services.yaml --proxy-mode iptables",
    ],
    exitCodes: RUN_CODES,
    takesWords: false,
    shows: () => true,
  },
  check: {
    summary: "look for what would keep signpost from working on this node",
    introduction: `signpost check: looks for what would keep signpost from working on this node

Usage:
  signpost check [flags]

Looks at kernel, nft and iptables, rights, the API server and what it lets signpost read, other proxies,
other programs' rules, the Node and its addresses, and the Services. It needs no daemon and no API server;
a running daemon adds its own findings. docs/findings.md lists all findings with what to do.
Without --config, --kubeconfig, --master or --manifests it has the configuration of the daemon that runs
on this node, which it asks at --socket, else that of /etc/signpost/config.yaml. Nothing is changed.`,
    examples: [
      "signpost check",
      "signpost check --kubeconfig /etc/signpost/kubeconfig",
      "signpost check -o json",
    ],
    exitCodes: [
      [0, "nothing is wrong"],
      [1, "there are warnings"],
      [2, "there are errors: signpost would not work; or the command line is wrong"],
    ],
    takesWords: false,
    shows,
  },
  cleanup: {
    summary: "remove every rule that signpost made",
    introduction: `signpost cleanup: removes every rule that signpost made

Usage:
  signpost cleanup [--kube-proxy] [--dry-run] [--force] [flags]

Beside a running daemon it removes nothing, and ends with 1: stop the daemon first.`,
    examples: ["signpost cleanup --dry-run", "signpost cleanup --kube-proxy"],
    exitCodes: RUN_CODES,
    takesWords: false,
    shows: () => true,
  },
  explain: {
    summary: "say what happens to a Service or a packet on this node, and why",
    introduction: `signpost explain: what happens to a Service or a packet on this node, and why

Usage:
  signpost explain NAMESPACE/SERVICE[:PORT] [--conntrack] [flags]
  signpost explain [SOURCE] to IP:PORT[/PROTOCOL] [--from SOURCE] [--trace] [flags]

PORT is a port's name or number, PROTOCOL is tcp (default), udp or sctp. In the place of "to"
an arrow may stand, in quotes ('->'), for shells take > as a redirection. Without --from,
the source address tells whether the packet is this node's, a pod's or from outside.
${DAEMON_FLAGS}`,
    examples: [
      "signpost explain shop/web",
      "signpost explain shop/web:http --conntrack -o json",
      "signpost explain 10.244.0.7 to 10.96.0.10:80/tcp",
      "signpost explain '203.0.113.9 -> 192.0.2.10:443/tcp'",
      "signpost explain --from node to '[fd00:10:96::a]:53/udp' --trace",
    ],
    exitCodes: [
      [0, "explained; traffic is delivered, or is none of signpost's business"],
      [1, "explained; something keeps traffic from being delivered"],
      [2, CANNOT],
    ],
    takesWords: true,
    shows,
  },
  verify: {
    summary: "compare the kernel with what it should hold",
    introduction: `signpost verify: compares the kernel with what it should hold

Usage:
  signpost verify [--fix] [flags]

${DAEMON_FLAGS}`,
    examples: ["signpost verify", "signpost verify --fix", "signpost verify -o json"],
    exitCodes: [
      [0, "the kernel holds what it should, by --fix at last"],
      [1, "it does not, or another proxy has rules there too; both are listed"],
      [2, CANNOT],
    ],
    takesWords: false,
    shows,
  },
  status: {
    summary: "ask the running daemon how it is",
    introduction: `signpost status: asks the running daemon how it is

Usage:
  signpost status [--watch] [flags]`,
    examples: ["signpost status", "signpost status --watch", "signpost status -o yaml"],
    exitCodes: [
      [0, "the daemon answered, and is well; or --watch was interrupted"],
      [1, "no daemon answers, it is starting, or it is not well"],
      [2, "the command line is wrong"],
    ],
    takesWords: false,
    shows,
  },
  top: {
    summary: "show the connections of each Service, the busiest first",
    introduction: `signpost top: shows the connections of each Service, the busiest first

Usage:
  signpost top [--once] [flags]

New connections by service port and kind of frontend, by second and in all. It asks the daemon that runs
on this node, at --socket, and shows it live until q or Ctrl-C; where the output is no terminal, it prints
one table. --service-metrics=false has nothing counted.`,
    examples: ["signpost top", "signpost top --once", "signpost top -o json"],
    exitCodes: [
      [0, "shown, or watched until the end"],
      [1, "no daemon answers, or it counts no connections"],
      [2, "the command line is wrong"],
    ],
    takesWords: false,
    shows,
  },
  diff: {
    summary: "say what applying objects would change in the kernel",
    introduction:
      `signpost diff: what applying objects would change in the kernel, as element adds and deletes

Usage:
  signpost diff --manifests FILE... [flags]

The files are laid over the present objects. Without --config, --kubeconfig or --master these are the
objects of the daemon that runs on this node, else those of the API server that /etc/signpost/config.yaml
names, else those of the state file. Where there is none of them (or --kubeconfig= says so), the files
are compared with what the kernel holds of the Services that they name. Nothing is changed.`,
    examples: [
      "signpost diff --manifests web.yaml",
      "signpost diff --kubeconfig /etc/signpost/kubeconfig --manifests web.yaml dns.yaml",
      "kustomize build overlays/prod | signpost diff --manifests - -o json",
    ],
    exitCodes: [
      [0, "nothing would change"],
      [1, "something would change"],
      [2, CANNOT],
    ],
    takesWords: true,
    shows,
  },
  completions: {
    summary: "print a completion script for a shell",
    introduction: `signpost completions: prints a completion script for a shell

Usage:
  signpost completions bash|zsh|fish

Commands, flags, their values and the names of Services are completed. At each Tab key the script runs
"signpost completions SHELL -- WORDS". Names come from where the flags of the line say, else from
where this node's daemon has them.`,
    examples: [
      "signpost completions bash > /etc/bash_completion.d/signpost",
      "signpost completions zsh > /usr/local/share/zsh/site-functions/_signpost",
      "signpost completions fish > ~/.config/fish/completions/signpost.fish",
    ],
    exitCodes: [[0, "printed"], [2, CANNOT]],
    takesWords: true,
    shows: ({ title }) => title === "Sources" || title === "Information",
  },
  version: {
    summary: "say what this program is made of",
    introduction: `signpost version: what this program is made of

Usage:
  signpost version

Prints the release, its commit and that commit's day, and the Deno, the engine of JavaScript and
the machine that it was made for, one on a line. signpost --version prints the first line alone.`,
    examples: ["signpost version"],
    exitCodes: PRINTED,
    takesWords: false,
    shows: informs,
  },
  licenses: {
    summary: "print the licences of what is in this program",
    introduction: `signpost licenses: the licences of what is in this program

Usage:
  signpost licenses

Prints name, version, publisher, licence and notices of each package that is in the program.`,
    examples: ["signpost licenses | less"],
    exitCodes: PRINTED,
    takesWords: false,
    shows: informs,
  },
};

/**
 * Defines the commands with their texts and flags, and gathers all flags. Parser, help texts, completion and the man
 * page follow from it.
 */
import { address, objectName, oneOf, path, text } from "./file/readers.ts";
import {
  choice,
  duration,
  type Flag,
  type FlagGroup,
  flagOnly,
  flagsOf,
  type Setting,
  switchFlag,
} from "./setting.ts";
import { SETTING_GROUPS, UNUSED_FLAGS, UNUSED_TITLE } from "./settings.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** The word that stands for the names of files in completions. */
export const FILES = ":files";

interface CommandRow {
  readonly group: "The daemon" | "This node" | "The program";
  readonly summary: string;
  /** Usage lines, without the program's name. */
  readonly usage: readonly string[];
  /** Details, in paragraphs. */
  readonly about?: string;
  readonly examples: readonly string[];
  readonly exitCodes: readonly (readonly [code: number, meaning: string])[];
  /** The words besides flags that may follow it, for completion. @default no words may follow */
  readonly words?: readonly string[];
  /**
   * The daemon's flags that its help shows beside its own. It takes all others, too. With `config`, its configuration
   * is that of this node's daemon, unless its flags name a cluster.
   */
  readonly shares?: readonly string[] | "all";
  /** Its own flags, by the names of its options. */
  readonly flags: Readonly<Record<string, Setting<unknown>>>;
}

const RUN_CODES: CommandRow["exitCodes"] = [
  [0, "done, or stopped by a signal; rules stay in the kernel"],
  [1, "cannot work: no nft or iptables, no permission, or a kernel that lacks a feature"],
  [2, "the command line or the configuration is wrong; nothing was touched"],
];

const CANNOT = "the command line is wrong, or the objects or the kernel cannot be read";

const PRINTED: CommandRow["exitCodes"] = [[0, "printed"], [2, "the command line is wrong"]];

/** The flags that name the cluster, if it is not that of this node's daemon. */
export const CLUSTER_FLAGS: readonly string[] = ["config", "kubeconfig", "master", "manifests"];

/** The flags that name the cluster and this node. */
const NODE = [...CLUSTER_FLAGS, "hostname-override", "proxy-mode", "cluster-cidr", "socket"];

const DAEMON_FLAGS =
  `It asks the daemon of this node (--socket) for its configuration and objects. If no daemon answers, it reads
/etc/signpost/config.yaml, and the objects from the API server or manifests for at most --timeout, then from
the state file. With --config, --kubeconfig, --master or --manifests, only the flags count. Nothing is changed.`;

const OUTPUT = choice(["table", "json", "yaml"], "table", {
  flag: "-o, --output FORMAT",
  help: "table for people; json or yaml for programs, see docs/output.md.",
});

const TIMEOUT = duration(10_000, {
  flag: "--timeout DURATION",
  help: "How long to wait for the objects.",
});

const NAMESPACE = flagOnly(objectName, "", {
  flag: "-n, --namespace NAME",
  help: "Only Services of this namespace.",
});

const CLEANUP = switchFlag("--cleanup", "The same as the command cleanup.");

const COMMAND_TREE = {
  run: {
    group: "The daemon",
    summary: "run the daemon",
    usage: ["[run] [flags]", "--once [flags]"],
    about:
      `Flags are --flag=value or --flag value. They win over the file of --config. A switch is --switch, --switch=true
or --switch=false.`,
    examples: [
      "signpost --config /etc/signpost/config.yaml",
      "signpost --kubeconfig /etc/signpost/kubeconfig --cluster-cidr 10.244.0.0/16",
      "signpost --once --manifests examples/ | nft -c -f -",
      "signpost --once -o json --manifests services.yaml --proxy-mode iptables",
    ],
    exitCodes: RUN_CODES,
    shares: "all",
    flags: {
      once: switchFlag(
        "--once",
        "Print the script for the present state, and exit. Nothing is changed.",
      ),
      output: choice(["script", "json"], "script", {
        flag: "-o, --output FORMAT",
        help: "With --once: script, or json for the desired state as data.",
      }),
      cleanup: CLEANUP,
      initOnly: switchFlag(
        "--init-only",
        "Change the kernel settings that need full root, and exit.",
      ),
      writeConfigTo: flagOnly(path, "", {
        flag: "--write-config-to FILE",
        help: "Write flags and file with defaults as a KubeProxyConfiguration, and exit.",
      }),
    },
  },
  check: {
    group: "This node",
    summary: "list problems of this node",
    usage: ["check [flags]"],
    about:
      `Checks the kernel, nft and iptables, rights, the API server, other proxies, rules of other programs, the Node
and its addresses, and the Services. It works without a daemon and without an API server. A running daemon adds
its own findings. docs/findings.md lists all findings with their remedies.

It asks the daemon of this node (--socket) for its configuration. If no daemon answers, it reads
/etc/signpost/config.yaml. With --config, --kubeconfig, --master or --manifests, only the flags count. It changes
nothing. A running daemon looks at its rules at once for it, and repairs them if they differ.`,
    examples: ["signpost check -o json", "signpost check --kubeconfig /etc/signpost/kubeconfig"],
    exitCodes: [
      [0, "nothing is wrong; information alone counts as nothing"],
      [1, "there are warnings, and no errors"],
      [2, "there are errors: signpost does not work; or the command line is wrong"],
    ],
    shares: NODE,
    flags: { output: OUTPUT },
  },
  bundle: {
    group: "This node",
    summary: "gather what a bug report needs in one archive",
    usage: ["bundle [-o FILE] [flags]"],
    about:
      `The archive (.tar.gz) has versions, the configuration, the output of status, check and verify, signpost's tables
without elements, the chains of other programs with their numbers of rules, rules of kube-proxy, the last lines
of the log, the last changes, addresses, routes, and numbers of connection tracking. It has names and addresses.
It never has Secrets, tokens, keys, passwords, variables of the environment, annotations or comments of rules.
The command lists the files before it writes the archive. If a part cannot be read, such as without a daemon, its file says why.`,
    examples: [
      "signpost bundle",
      "signpost bundle -o - > bundle.tar.gz",
      "kubectl exec -n kube-system POD -- signpost bundle -o - > bundle.tar.gz",
    ],
    exitCodes: [[0, "written"], [2, "the command line is wrong, or the archive cannot be written"]],
    shares: NODE,
    flags: {
      output: flagOnly(text, "", {
        flag: "-o, --output FILE",
        help: "The archive, or - for standard output. Default: a new file in /var/lib/signpost.",
      }),
    },
  },
  cleanup: {
    group: "The daemon",
    summary: "remove every rule that signpost made",
    usage: ["cleanup [--kube-proxy] [--dry-run] [--force] [flags]"],
    about: "Stop the daemon first: beside a running daemon, cleanup removes nothing.",
    examples: ["signpost cleanup --dry-run", "signpost cleanup --kube-proxy"],
    exitCodes: [
      [0, "all rules of signpost are removed, or printed with --dry-run"],
      [1, "a daemon runs, or a rule cannot be removed"],
      [2, "the command line or the configuration is wrong; nothing was touched"],
    ],
    shares: ["config", "proxy-mode", "socket", "v"],
    flags: {
      cleanup: CLEANUP,
      kubeProxy: switchFlag("--kube-proxy", "Remove kube-proxy's rules too."),
      dryRun: switchFlag(
        "--dry-run",
        "Print the rules that cleanup would remove. Nothing is changed.",
      ),
      force: switchFlag(
        "--force",
        "Remove the rules also beside a running daemon, which writes them again.",
      ),
    },
  },
  explain: {
    group: "This node",
    summary: "explain how this node handles a Service or a packet",
    usage: [
      "explain [NAMESPACE/]SERVICE[:PORT] [-v] [--probe] [--conntrack] [--history] [flags]",
      "explain IP[:PORT[/PROTOCOL]] [-v] [--probe] [--conntrack] [flags]",
      "explain [SOURCE] to IP:PORT[/PROTOCOL] [--from SOURCE] [--trace] [flags]",
      "explain [SOURCE] to SERVICE:PORT[/PROTOCOL] [--from SOURCE] [--trace] [flags]",
    ],
    about:
      `Without NAMESPACE, it searches all namespaces for the Service; svc/web means web. A DNS name such as web.shop or
web.shop.svc.cluster.local means shop/web. An IP is an address of the Service, or with a node port one of this
node. A packet to a Service goes to its cluster IP. PORT is the name or number of a port. PROTOCOL is tcp (default),
udp or sctp. You can write '->' instead of "to", in quotes, because a shell takes > for a redirection. Without --from,
the source address says if the sender is this node, a pod or outside.
SOURCE is an IP address, or the name of a pod that is an endpoint of a Service: POD, NAMESPACE/POD.
With -v, it also lists the kernel's correct entries.

${DAEMON_FLAGS}`,
    examples: [
      "signpost explain web",
      "signpost explain shop/web -v",
      "signpost explain shop/web --probe",
      "signpost explain shop/web:http --conntrack -o json",
      "signpost explain 10.96.0.10",
      "signpost explain 10.244.0.7 to 10.96.0.10:80/tcp",
      "signpost explain 10.244.0.7 to shop/web:80",
      "signpost explain shop/web-0 to shop/web:80",
      "signpost explain '203.0.113.9 -> 192.0.2.10:443/tcp'",
      "signpost explain --from node to '[fd00:10:96::a]:53/udp' --trace",
    ],
    exitCodes: [
      [0, "explained; traffic is delivered, or signpost does not handle it"],
      [1, "explained; traffic is not delivered"],
      [2, CANNOT],
    ],
    words: ["to"],
    shares: NODE,
    flags: {
      output: OUTPUT,
      namespace: NAMESPACE,
      from: flagOnly(oneOf("pod", "node", "external"), "", {
        flag: "--from SOURCE",
        choices: ["pod", "node", "external"],
        help:
          "Sender of the packet: pod (of this node), node (this node itself) or external (any other host).",
      }),
      trace: switchFlag(
        "--trace",
        "Send one packet from this node and show which rules of the kernel it meets.",
      ),
      probe: switchFlag(
        "--probe",
        "Connect from this node to each endpoint and address of the Service (TCP), and show the results.",
      ),
      conntrack: switchFlag("--conntrack", "Show conntrack entries, too."),
      history: switchFlag(
        "--history",
        "Show the last 20 changes of the Service since the daemon started, not the last 5.",
      ),
      timeout: TIMEOUT,
    },
  },
  test: {
    group: "This node",
    summary: "connect to all Services from this node, and list which do not answer",
    usage: ["test [-n NAMESPACE] [[NAMESPACE/]SERVICE...] [flags]"],
    about:
      `Connects over TCP to each address and each used endpoint of all Services, or of the named ones, 64 at once, each
for at most 1 s. Port 53 gets a DNS query over UDP, and default/kubernetes a request for /readyz.
Ctrl-C shows what was found. A Service without endpoints is only counted, unless it is named.

${DAEMON_FLAGS}`,
    examples: ["signpost test -n shop", "signpost test shop/web kube-system/kube-dns -o json"],
    exitCodes: [[0, "all answer"], [1, "one does not"], [2, `${CANNOT}, or it was interrupted`]],
    words: [],
    shares: NODE,
    flags: { output: OUTPUT, namespace: NAMESPACE, timeout: TIMEOUT },
  },
  verify: {
    group: "This node",
    summary: "compare the kernel's rules with the desired rules",
    usage: ["verify [--fix] [flags]"],
    about: DAEMON_FLAGS,
    examples: ["signpost verify", "signpost verify --fix", "signpost verify -o json"],
    exitCodes: [
      [0, "the kernel has the desired rules, with --fix: after the full sync"],
      [1, "rules differ, or another proxy has rules there too; both are listed"],
      [2, CANNOT],
    ],
    shares: NODE,
    flags: {
      output: OUTPUT,
      fix: switchFlag("--fix", "Ask the daemon for a full sync if rules differ."),
      timeout: TIMEOUT,
    },
  },
  status: {
    group: "This node",
    summary: "show the state of the running daemon",
    usage: ["status [--watch] [flags]"],
    examples: ["signpost status", "signpost status --watch", "signpost status -o yaml"],
    exitCodes: [
      [0, "the daemon is healthy, or --watch was interrupted"],
      [1, "no daemon answers, it is starting or unhealthy, or it has a finding that is an error"],
      [2, "the command line is wrong"],
    ],
    shares: ["socket"],
    flags: {
      output: OUTPUT,
      watch: switchFlag("--watch", "Show it every second, until q or Ctrl-C."),
      namespace: NAMESPACE,
    },
  },
  top: {
    group: "This node",
    summary: "show the connections of each Service, the busiest first",
    usage: ["top [--once] [flags]", "top [NAMESPACE/]SERVICE [--once] [flags]"],
    about:
      `Shows new connections of each service port and kind of frontend, for each second and in all. It asks the daemon of
this node (--socket). In a terminal it runs until q or Ctrl-C: arrows and pages scroll, / filters by name, n by
namespace, s sorts, ? lists the keys. Elsewhere it prints one table. The daemon
counts nothing with --service-metrics=false.

With a Service, it shows the open connections of each of its endpoints, out of the table of connection tracking.
An endpoint that terminates and has open connections is not drained yet.`,
    examples: [
      "signpost top",
      "signpost top --once",
      "signpost top shop/web",
      "signpost top -o json",
    ],
    exitCodes: [
      [0, "shown, or watched until the end"],
      [1, "no daemon answers, or it counts no connections"],
      [2, "the command line is wrong"],
    ],
    words: [],
    shares: ["socket"],
    flags: {
      output: OUTPUT,
      once: switchFlag("--once", "Print one table, also in a terminal."),
      namespace: NAMESPACE,
    },
  },
  observe: {
    group: "This node",
    summary: "show connections to Services as they begin and end",
    usage: ["observe [[NAMESPACE/]SERVICE[:PORT]] [-n NAMESPACE] [flags]"],
    about:
      `Follows the kernel's connection tracking (conntrack -E) until Ctrl-C. Times are in UTC. REFUSED: the endpoint
rejected it. NO ANSWER comes when the kernel gives the attempt up, for TCP after two minutes. It does not see what
signpost's rules reject or drop: signpost top counts that. A line says how many events were lost.

${DAEMON_FLAGS}`,
    examples: ["signpost observe shop/web", "signpost observe -n shop --client 10.244.0.7 -o json"],
    exitCodes: [[0, "interrupted"], [2, CANNOT]],
    words: [],
    shares: NODE,
    flags: {
      output: choice(["table", "json"], "table", {
        flag: "-o, --output FORMAT",
        help: "table for people; json for programs: an object for each line.",
      }),
      namespace: NAMESPACE,
      client: flagOnly(address, "", {
        flag: "--client ADDRESS",
        help: "Only connections of this client.",
      }),
      endpoint: flagOnly(address, "", {
        flag: "--endpoint ADDRESS",
        help: "Only connections to this endpoint.",
      }),
      timeout: TIMEOUT,
    },
  },
  diff: {
    group: "This node",
    summary: "show what manifests would change in the kernel",
    usage: ["diff --manifests FILE... [flags]"],
    about:
      `Lays the files over the present objects, as kubectl apply does. It asks the daemon of this node (--socket) for
them, then the API server of /etc/signpost/config.yaml, then the state file. With --config, --kubeconfig or
--master, only the flags count. Nothing is changed.`,
    examples: [
      "signpost diff --manifests web.yaml",
      "signpost diff --kubeconfig /etc/signpost/kubeconfig --manifests web.yaml dns.yaml",
      "kustomize build overlays/prod | signpost diff --manifests - -o json",
    ],
    exitCodes: [[0, "nothing would change"], [1, "something would change"], [2, CANNOT]],
    words: [FILES],
    shares: NODE,
    flags: { output: OUTPUT, timeout: TIMEOUT },
  },
  migrate: {
    group: "This node",
    summary: "show what changes for each Service if signpost replaces kube-proxy",
    usage: ["migrate [flags]"],
    about:
      `Give it kube-proxy's own file (--config) or flags. It lists addresses on which node ports do not answer any more,
firewalls that drop connections, ports that programs hold, conflicts, refused Services and settings that are not
kept, then the line to type. Nothing is changed.`,
    examples: ["signpost migrate --config /var/lib/kube-proxy/config.conf"],
    exitCodes: [[0, "no Service changes"], [1, "a Service changes"], [2, CANNOT]],
    shares: NODE,
    flags: { timeout: TIMEOUT },
  },
  completions: {
    group: "The program",
    summary: "print a completion script for a shell",
    usage: ["completions bash|zsh|fish"],
    about:
      `The script completes commands, flags and values. At each Tab key it runs "signpost completions SHELL -- WORDS".`,
    examples: [
      "signpost completions bash > /etc/bash_completion.d/signpost",
      "signpost completions zsh > /usr/local/share/zsh/site-functions/_signpost",
      "signpost completions fish > ~/.config/fish/completions/signpost.fish",
    ],
    exitCodes: PRINTED,
    words: SHELLS,
    flags: {},
  },
  version: {
    group: "The program",
    summary: "print version, commit and engine",
    usage: ["version"],
    about:
      `Prints the release, its commit with the day, the version of Deno, the JavaScript engine and the processor, each
on a line. signpost --version prints only the first line.`,
    examples: ["signpost version"],
    exitCodes: PRINTED,
    flags: {},
  },
  licenses: {
    group: "The program",
    summary: "print the licences of all packages in the program",
    usage: ["licenses"],
    about: `Prints name, version, publisher, licence and notices of each package in the program.`,
    examples: ["signpost licenses | less"],
    exitCodes: PRINTED,
    flags: {},
  },
} satisfies Readonly<Record<string, CommandRow>>;

export type CommandName = keyof typeof COMMAND_TREE;

export const COMMANDS: readonly CommandName[] = Object.keys(COMMAND_TREE) as CommandName[];

export const COMMAND_ROWS: Readonly<Record<CommandName, CommandRow>> = COMMAND_TREE;

/** The options of a command: the values of its own flags, or their defaults. */
export type OptionsOf<N extends CommandName> = {
  readonly [P in keyof (typeof COMMAND_TREE)[N]["flags"]]:
    (typeof COMMAND_TREE)[N]["flags"][P] extends Setting<infer T> ? T : never;
};

/** `--help` and `--version` win over all other flags. */
const INFORMATION_FLAGS = {
  help: switchFlag("-h, --help", "Print this text and exit."),
  version: switchFlag("--version", "Print the version and exit."),
};

/** The flags that every command takes, in the order of the help text. */
export const SHARED_FLAG_GROUPS: readonly FlagGroup[] = Object
  .entries({
    ...SETTING_GROUPS,
    [UNUSED_TITLE]: { ...SETTING_GROUPS[UNUSED_TITLE], ...UNUSED_FLAGS },
    Information: INFORMATION_FLAGS,
  })
  .map(([title, settings]) => ({ title, flags: flagsOf(settings) }));

const SHARED_FLAGS: readonly Flag[] = SHARED_FLAG_GROUPS.flatMap(({ flags }) => flags);

/** Every flag. A name may be there for several commands. */
export const FLAGS: readonly Flag[] = [...COMMANDS.flatMap(ownFlagsOf), ...SHARED_FLAGS];

export function ownFlagsOf(command: CommandName): readonly Flag[] {
  return flagsOf(COMMAND_ROWS[command].flags);
}

/** Returns the commands that have a flag of that name of their own; empty if every command takes it. */
export function ownersOf(flag: Flag): readonly CommandName[] {
  if (SHARED_FLAGS.includes(flag)) return [];
  return COMMANDS.filter((command) => ownFlagsOf(command).some(({ name }) => name === flag.name));
}

/** Returns the first flag that fits: of a command, else of other commands. */
export function findFlag(command: CommandName, fits: (flag: Flag) => boolean): Flag | undefined {
  return [...ownFlagsOf(command), ...SHARED_FLAGS, ...FLAGS].find(fits);
}

/** Returns the flags that a command's help and completion show: its own flags, then the shared ones. */
export function flagGroupsOf(command: CommandName): readonly FlagGroup[] {
  const { shares = [] } = COMMAND_ROWS[command];
  const own = ownFlagsOf(command);
  if (shares === "all") return [{ title: "What to do", flags: own }, ...SHARED_FLAG_GROUPS];
  const groups = [
    { title: "Flags", flags: [...own, ...SHARED_FLAGS.filter(({ name }) => name === "help")] },
    {
      title: "Flags of the daemon",
      flags: SHARED_FLAGS.filter(({ name }) => shares.includes(name)),
    },
  ];
  return groups.filter(({ flags }) => flags.length > 0);
}

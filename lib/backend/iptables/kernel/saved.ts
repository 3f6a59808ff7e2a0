/**
 * What `iptables-save` says that the kernel holds.
 *
 * @module
 */
import { eachLine } from "../../../model/values/text.ts";
import { FIXED_CHAINS, isServiceChain } from "../script/names.ts";

/** A rule as `iptables-save` prints it. */
export interface SavedRule {
  readonly chain: string;
  /** The rule without `-A chain`. */
  readonly rule: string;
}

/** One table as `iptables-save` prints it. */
export interface SavedTable {
  readonly name: string;
  /** Chains that programs made; the built-in ones are not among them. */
  readonly chains: ReadonlySet<string>;
  /** Built-in chains with their policies. */
  readonly builtIn: ReadonlyMap<string, string>;
  readonly rules: readonly SavedRule[];
}

/** A family's tables by name. */
export type Saved = ReadonlyMap<string, SavedTable>;

/** What `iptables-save -c` prints before a rule. */
const COUNTERS = /^\[\d+:\d+\] /;

/** Lines that are read at one go. */
const BATCH = 200;

/**
 * Parses the output of `iptables-save` or `ip6tables-save`, with counters or without; lines that it
 * does not know are passed over.
 *
 * @yields where other work can be done
 */
export function* parseSaved(text: string): Generator<undefined, Saved> {
  const tables = new Map<string, SavedTable>();
  let chains = new Set<string>();
  let builtIn = new Map<string, string>();
  let rules: SavedRule[] = [];
  let count = 0;
  for (const printed of eachLine(text)) {
    if (++count % BATCH === 0) yield;
    const line = printed.startsWith("[") ? printed.replace(COUNTERS, "") : printed;
    if (line.startsWith("-A ")) {
      const end = line.indexOf(" ", 3);
      rules.push(
        end < 0
          ? { chain: line.slice(3), rule: "" }
          : { chain: line.slice(3, end), rule: line.slice(end + 1) },
      );
    } else if (line.startsWith(":")) {
      const [name = "", policy] = line.slice(1).split(" ");
      if (policy === "-") chains.add(name);
      else builtIn.set(name, policy ?? "");
    } else if (line.startsWith("*")) {
      [chains, builtIn, rules] = [new Set(), new Map(), []];
      const name = line.slice(1).trim();
      tables.set(name, { name, chains, builtIn, rules });
    }
  }
  return tables;
}

/** The arguments of a rule, quotes and escapes undone. */
export function tokens(rule: string): string[] {
  const words = rule.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g);
  return [...words].map(([, quoted, plain]) => plain ?? (quoted ?? "").replace(/\\(.)/g, "$1"));
}

/** What follows an option of a rule, for example `-j` or `--comment`. */
export function argumentOf(rule: string, option: string): string | undefined {
  const words = tokens(rule);
  const at = words.indexOf(option);
  return at < 0 ? undefined : words[at + 1];
}

/** The chain or target that a rule leads to. */
export function targetOf(rule: string): string | undefined {
  return argumentOf(rule, "-j") ?? argumentOf(rule, "-g");
}

/** Whether two rules say the same, however they are quoted. */
export function sameRule(one: string, other: string): boolean {
  return one === other || tokens(one).join("\0") === tokens(other).join("\0");
}

/** Chains of kube-proxy's ipvs mode, which `kube-proxy` itself may have left; the first is of 1.9 and older. */
const IPVS_CHAINS: readonly string[] = [
  "KUBE-FIRE-WALL",
  "KUBE-IPVS-FILTER",
  "KUBE-IPVS-OUT-FILTER",
  "KUBE-LOAD-BALANCER",
  "KUBE-NODE-PORT",
  "KUBE-SOURCE-RANGES-FIREWALL",
];

const OWN_CHAINS: ReadonlySet<string> = new Set([
  ...FIXED_CHAINS.filter,
  ...FIXED_CHAINS.nat,
  ...IPVS_CHAINS,
]);

/** Chains that kube-proxy's ipvs mode shares with the iptables mode; it writes all of their rules. */
const SHARED_CHAINS: Readonly<Record<string, readonly string[]>> = {
  filter: ["KUBE-FORWARD", "KUBE-PROXY-FIREWALL"],
  nat: ["KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-SERVICES"],
};

/** Whether kube-proxy's ipvs mode has such a chain in a table. */
export function isIpvsModes(table: string, chain: string): boolean {
  return IPVS_CHAINS.includes(chain) || SHARED_CHAINS[table]?.includes(chain) === true;
}

/**
 * Whether a chain is signpost's or kube-proxy's. `KUBE-FIREWALL`, `KUBE-KUBELET-CANARY` and
 * `KUBE-IPTABLES-HINT` are kubelet's.
 */
export function isOwnChain(name: string): boolean {
  return OWN_CHAINS.has(name) || isServiceChain(name);
}

/**
 * Whether a rule is a jump of signpost's or kube-proxy's: it stands in a built-in chain, leads to
 * a chain of theirs, and has a comment as kube-proxy writes it.
 */
export function isOurJump(table: SavedTable, { chain, rule }: SavedRule): boolean {
  if (!table.builtIn.has(chain)) return false;
  const target = targetOf(rule);
  return target !== undefined && isOwnChain(target) &&
    /^kube(rnetes|-proxy) /.test(argumentOf(rule, "--comment") ?? "");
}

/** Chains of ours that rules in chains of others lead to: they cannot be removed. */
export function referencedByOthers(
  table: SavedTable,
  isOurs: (rule: SavedRule) => boolean,
): ReadonlySet<string> {
  const referenced = new Set<string>();
  for (const saved of table.rules) {
    if (isOwnChain(saved.chain) || isOurs(saved)) continue;
    const target = targetOf(saved.rule);
    if (target !== undefined && isOwnChain(target)) referenced.add(target);
  }
  return referenced;
}

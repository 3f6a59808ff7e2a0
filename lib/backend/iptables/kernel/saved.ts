/** Parses the output of `iptables-save`. */
import { eachLine } from "../../../model/values/text.ts";
import { CANARY_CHAIN, HAIRPIN_CHAIN, isServiceChain } from "../script/names.ts";

export interface SavedTable {
  readonly name: string;
  /** User-defined chains with their rules, each without `-A chain`. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  readonly builtIn: ReadonlyMap<string, BuiltInChain>;
}

interface BuiltInChain {
  readonly policy: string;
  readonly rules: readonly string[];
}

/** A family's tables by name. */
export type Saved = ReadonlyMap<string, SavedTable>;

/** Parses `iptables-save`. Unknown lines are skipped. @yields when other work can run */
export function* parseSaved(text: string): Generator<undefined, Saved> {
  const tables = new Map<string, SavedTable>();
  let chains = new Map<string, string[]>();
  let builtIn = new Map<string, { policy: string; rules: string[] }>();
  for (const line of eachLine(text)) {
    yield;
    if (line.startsWith("-A ")) {
      const end = `${line} `.indexOf(" ", 3);
      const chain = line.slice(3, end);
      const rules = chains.get(chain) ?? builtIn.get(chain)?.rules;
      rules?.push(line.slice(end + 1));
    } else if (line.startsWith(":")) {
      const [name = "", policy = ""] = line.slice(1).split(" ");
      if (policy === "-") chains.set(name, []);
      else builtIn.set(name, { policy, rules: [] });
    } else if (line.startsWith("*")) {
      [chains, builtIn] = [new Map(), new Map()];
      const name = line.slice(1).trim();
      tables.set(name, { name, chains, builtIn });
    }
  }
  return tables;
}

/** Splits a rule into arguments, without quotes and escapes. */
export function tokens(rule: string): string[] {
  const words = rule.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g);
  return [...words].map(([, quoted, plain]) => plain ?? (quoted ?? "").replace(/\\(.)/g, "$1"));
}

/** Returns the argument of an option, for example `-j` or `--comment`. */
export function argumentOf(rule: string, option: string): string | undefined {
  const words = tokens(rule);
  const at = words.indexOf(option);
  return at < 0 ? undefined : words[at + 1];
}

export function targetOf(rule: string): string | undefined {
  return argumentOf(rule, "-j") ?? argumentOf(rule, "-g");
}

/** Returns a key that is equal for rules that differ only in quotes. */
export function wordsOf(rule: string): string {
  return tokens(rule).join("\0");
}

/** Chains that kube-proxy's ipvs mode may have left. The first chain is of 1.9 and older. */
const IPVS_CHAINS: readonly string[] = [
  "KUBE-FIRE-WALL",
  "KUBE-IPVS-FILTER",
  "KUBE-IPVS-OUT-FILTER",
  "KUBE-LOAD-BALANCER",
  "KUBE-NODE-PORT",
  "KUBE-SOURCE-RANGES-FIREWALL",
];

/** Chains that kube-proxy's ipvs and iptables modes share. The ipvs mode writes all of their rules. */
const SHARED_CHAINS: Readonly<Record<string, readonly string[]>> = {
  filter: ["KUBE-FORWARD", "KUBE-PROXY-FIREWALL"],
  nat: ["KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-SERVICES"],
};

/** The names of our own chains that do not depend on Services, in both tables. */
const OWN_CHAINS: ReadonlySet<string> = new Set([
  ...IPVS_CHAINS,
  ...Object.values(SHARED_CHAINS).flat(),
  ...[CANARY_CHAIN, HAIRPIN_CHAIN, "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS"],
]);

export function isIpvsChain(table: string, chain: string): boolean {
  return IPVS_CHAINS.includes(chain) || SHARED_CHAINS[table]?.includes(chain) === true;
}

/** Returns true for a chain of signpost or kube-proxy. Other `KUBE-` chains are kubelet's. */
export function isOwnChain(name: string): boolean {
  return OWN_CHAINS.has(name) || isServiceChain(name);
}

/** Returns the jumps of signpost or kube-proxy, each after its built-in chain. */
export function jumpsIn({ builtIn }: SavedTable): string[] {
  return [...builtIn].flatMap(([chain, { rules }]) =>
    rules.filter(isJump).map((rule) => `${chain} ${rule}`)
  );
}

/** Returns true for a rule of a built-in chain that leads to our chain and has kube-proxy's comment. */
export function isJump(rule: string): boolean {
  const target = targetOf(rule);
  return target !== undefined && isOwnChain(target) &&
    /^kube(rnetes|-proxy) /.test(argumentOf(rule, "--comment") ?? "");
}

/** Returns our chains that other programs' rules lead to. */
export function referencedByOthers({ chains, builtIn }: SavedTable): ReadonlySet<string> {
  const others = [
    ...[...chains].filter(([chain]) => !isOwnChain(chain)).flatMap(([, rules]) => rules),
    ...[...builtIn.values()].flatMap(({ rules }) => rules.filter((rule) => !isJump(rule))),
  ];
  return new Set(others.flatMap((rule) => targetOf(rule) ?? []).filter(isOwnChain));
}

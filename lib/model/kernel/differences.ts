/** Finds and declares differences between the desired state and the kernel, for `verify`, `diff` and drift. */
import type { Mode } from "../configuration.ts";
import type { ObjectsOrigin } from "../status.ts";
import type { DesiredServicePort } from "./desired.ts";

export interface Change {
  readonly change: "add" | "delete";
  readonly type: "element" | "chain" | "set" | "rule";
  readonly in: string;
  /** The key of an element, or the rule; `""` for the chain or set itself. */
  readonly key: string;
  /** The value of the key; `""` in sets. */
  readonly data: string;
  /** `namespace/name:port`; `""` if several or unknown. */
  readonly service: string;
}

/** The version of the report. It grows when a field is removed or changes its meaning. */
export const VERIFY_VERSION = 1;

export interface Difference {
  readonly type: "missing" | "extra" | "wrong";
  /** The set, map, chain or table: `services4`, `chain services`, `iptables nat KUBE-SERVICES`. */
  readonly in: string;
  /** The key of the element, or the rule; `""` for the set, map, chain or table itself. */
  readonly key: string;
  /** The desired value; `""` if nothing is desired, or the key is all. */
  readonly desired: string;
  readonly held: string;
}

export interface ServiceDifference extends Difference {
  /** `namespace/name:port`; `""` for all Services or an unknown Service. */
  readonly service: string;
}

/** A Service whose last good rules the daemon keeps. */
interface HeldBack {
  readonly service: string;
  /** The reason why its current state is not used. */
  readonly reason: string;
}

export interface HeldBackPorts extends HeldBack {
  readonly ports: readonly DesiredServicePort[];
}

export interface FixOutcome {
  /** `differs`: the kernel differs even after a full sync. `failed`: a daemon did not answer, or did not sync. */
  readonly result: "unneeded" | "fixed" | "differs" | "failed";
  readonly message: string;
}

/** Everything that `signpost verify -o json` prints. */
export interface Verification {
  readonly verifyVersion: typeof VERIFY_VERSION;
  readonly node: string;
  readonly mode: Mode;
  /** True if the kernel holds the desired state, without another proxy's rules. */
  readonly same: boolean;
  readonly services: number;
  readonly servicePorts: number;
  /** The number of elements and rules in the desired state. */
  readonly compared: number;
  /** By set, map or chain, then by key. With `--fix`, the differences before it. */
  readonly differences: readonly ServiceDifference[];
  /** Differences in progress: the kernel changed between two reads, or new node addresses are not read yet. */
  readonly inFlight: readonly ServiceDifference[];
  /** Services whose last good rules the daemon keeps: these rules are the desired rules. */
  readonly heldBack: readonly HeldBack[];
  readonly otherProxies: readonly string[];
  /** `null` without `--fix`. */
  readonly fix: FixOutcome | null;
  readonly objects: ObjectsOrigin;
}

/** Makes a difference. @param values `key` is absent for the whole place, `desired` and `held` without a value */
export function difference(
  type: Difference["type"],
  place: string,
  values: Partial<Pick<Difference, "key" | "desired" | "held">> = {},
): Difference {
  return { type, in: place, key: "", desired: "", held: "", ...values };
}

/** Returns the rules that `others` lacks, or has less often. Rules with the same key are equal. */
export function without<Rule>(
  rules: readonly Rule[],
  { others, keyOf }: { readonly others: readonly Rule[]; readonly keyOf: (rule: Rule) => string },
): Rule[] {
  const left = new Map<string, number>();
  for (const key of others.map(keyOf)) left.set(key, (left.get(key) ?? 0) + 1);
  return rules.filter((rule) => {
    const key = keyOf(rule);
    const count = left.get(key) ?? 0;
    left.set(key, count - 1);
    return count <= 0;
  });
}

interface RuleOptions {
  readonly place: string;
  readonly keyOf: (rule: string) => string;
  /** Rules with the same key can change places. @default `keyOf` */
  readonly orderOf?: (rule: string) => string;
}

/** Returns the missing and extra rules, which are their own keys; else the first rule in a wrong place. */
export function compareRules(
  wanted: readonly string[],
  there: readonly string[],
  { place, keyOf, orderOf = keyOf }: RuleOptions,
): Difference[] {
  const missing = without(wanted, { others: there, keyOf });
  const extra = without(there, { others: wanted, keyOf });
  if (missing.length + extra.length > 0) {
    return [
      ...missing.map((key) => difference("missing", place, { key })),
      ...extra.map((key) => difference("extra", place, { key })),
    ];
  }
  const moved = wanted.findIndex((rule, i) => orderOf(rule) !== orderOf(there[i] ?? ""));
  if (moved < 0) return [];
  const at = (rules: readonly string[]) => `rule ${moved + 1}: ${rules[moved]}`;
  return [difference("wrong", place, { desired: at(wanted), held: at(there) })];
}

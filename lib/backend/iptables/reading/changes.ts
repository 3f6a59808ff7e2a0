/**
 * Places the iptables rules of service ports, and compares two sets of them.
 * @module
 */
import { serviceRules } from "../script/service_rules.ts";
import type { Family } from "../../../model/values/address.ts";
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Change } from "../../../model/kernel/differences.ts";
import type { DesiredStep } from "../../backend.ts";
import { without } from "../../without.ts";

/** A rule with its place and its service port. */
export interface PlacedRule {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
  /** The rule without `-A chain`. */
  readonly rule: string;
  /** `namespace/name:port`. */
  readonly service: string;
}

/** Returns all rules of a service port: those in shared chains, then those in its own. */
export function rulesOf(port: DesiredServicePort, node: DesiredNode): PlacedRule[] {
  const { shared, chains } = serviceRules(port, node);
  const { family, name: service } = port;
  return [
    ...shared.map(({ table, chain, rule }) => ({ family, table, chain, rule, service })),
    ...[...chains].flatMap(([chain, rules]) =>
      rules.map((rule) => ({ family, table: "nat", chain, rule, service }))
    ),
  ];
}

/** Returns the rules that a step deletes and adds, deletions first. */
export function iptablesChanges({ change: { services }, node }: DesiredStep): Change[] {
  const of = (ports: readonly DesiredServicePort[]) => ports.flatMap((port) => rulesOf(port, node));
  const before = [...services.values()].flatMap((change) => of(change.before));
  const after = [...services.values()].flatMap((change) => of(change.after));
  return [
    ...without(before, { others: after, keyOf }).map((rule) => toChange("delete", rule)),
    ...without(after, { others: before, keyOf }).map((rule) => toChange("add", rule)),
  ];
}

/** Returns a key without the Service, so that equal rules of two Services count twice. */
function keyOf({ family, table, chain, rule }: PlacedRule): string {
  return `${family} ${table} ${chain} ${rule}`;
}

/** Returns a rule as a change. */
export function toChange(
  change: Change["change"],
  { family, table, chain, rule, service }: PlacedRule,
): Change {
  return {
    change,
    type: "rule",
    in: `IPv${family} ${table} ${chain}`,
    key: rule,
    data: "",
    service,
  };
}

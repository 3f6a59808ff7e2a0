/**
 * Compares manifests with the kernel's iptables rules.
 *
 * @module
 */
import { argumentOf, isOwnChain, sameRule } from "../kernel/saved.ts";
import { isServiceChain } from "../script/names.ts";
import type { DesiredState } from "../../../model/kernel/desired.ts";
import type { SavedFamilies } from "./entries.ts";
import { type PlacedRule, rulesOf, toChange } from "./changes.ts";
import type { Change } from "../../../model/kernel/differences.ts";

/**
 * Returns the step from the kernel's rules to those of some Services. The comment of a rule names
 * its service port, else its chain does.
 *
 * @param state the Services of the manifests only
 */
export function iptablesKernelChanges(state: DesiredState, held: SavedFamilies): Change[] {
  const ports = [...state.services.values()].flat();
  const wanted = ports.flatMap((port) => rulesOf(port, state.node));
  const chains = new Map(wanted.map((each) => [`${each.family} ${each.chain}`, each.service]));
  const there = heldRules(held, (rule) => {
    const name = argumentOf(rule.rule, "--comment")?.split(" ")[0] ?? "";
    if (state.services.has(name.split(":")[0] ?? "")) return name;
    return isServiceChain(rule.chain) ? chains.get(`${rule.family} ${rule.chain}`) : undefined;
  });
  return [
    ...there.filter((each) => !wanted.some((other) => isSame(each, other)))
      .map((each) => toChange("delete", each)),
    ...wanted.filter((each) => !there.some((other) => isSame(each, other)) && !isShared(each, held))
      .map((each) => toChange("add", each)),
  ];
}

/** Returns the rules in our chains that `serviceOf` assigns to a service port. */
function heldRules(
  held: SavedFamilies,
  serviceOf: (rule: Omit<PlacedRule, "service">) => string | undefined,
): PlacedRule[] {
  return [...held].flatMap(([family, saved]) =>
    [...saved.values()].flatMap(({ name: table, rules }) =>
      rules.filter(({ chain }) => isOwnChain(chain)).flatMap(({ chain, rule }) => {
        const place = { family, table, chain, rule };
        const service = serviceOf(place);
        return service === undefined ? [] : [{ ...place, service }];
      })
    )
  );
}

/** Returns true for a hairpin rule, which has no comment and may be another Service's. */
function isShared({ family, table, chain, rule }: PlacedRule, held: SavedFamilies): boolean {
  const rules = held.get(family)?.get(table)?.rules ?? [];
  return rules.some((each) => each.chain === chain && sameRule(each.rule, rule));
}

function isSame(a: PlacedRule, b: PlacedRule): boolean {
  return a.family === b.family && a.table === b.table && a.chain === b.chain &&
    sameRule(a.rule, b.rule);
}

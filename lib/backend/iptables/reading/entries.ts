/**
 * Lists the desired iptables rules of a Service and their state in the kernel.
 *
 * @module
 */
import { sameRule, type Saved } from "../kernel/saved.ts";
import { serviceRules } from "../script/service_rules.ts";
import type { Family } from "../../../model/values/address.ts";
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { KernelEntry } from "../../kernel_rules.ts";

/** The kernel's rules of each family. */
export type SavedFamilies = ReadonlyMap<Family, Saved>;

/** Returns the rules of a Service, differences first. */
export function iptablesEntries(
  ports: readonly DesiredServicePort[],
  { node, held }: { readonly node: DesiredNode; readonly held: SavedFamilies },
): KernelEntry[] {
  const entries = ports.flatMap((port) => {
    const saved = held.get(port.family);
    if (!saved) return [];
    const { shared, chains } = serviceRules(port, node);
    return [
      ...shared.map(({ table, chain, rule }) => {
        const there = rulesOf(saved, table, chain).some((each) => sameRule(each, rule));
        return entry(`${table} ${chain}`, rule, there ? "same" : "missing");
      }),
      ...[...chains].flatMap(([chain, rules]) => chainEntries(saved, chain, rules)),
    ];
  });
  return entries.sort((a, b) => Number(a.state === "same") - Number(b.state === "same"));
}

/** Compares a chain of the Service rule by rule, in order. */
function chainEntries(saved: Saved, chain: string, rules: readonly string[]): KernelEntry[] {
  const place = `nat ${chain}`;
  if (!saved.get("nat")?.chains.has(chain)) return [entry(place, "", "missing")];
  const held = rulesOf(saved, "nat", chain);
  return Array.from({ length: Math.max(held.length, rules.length) }, (_, i) => {
    const desired = rules[i];
    const there = held[i];
    if (desired === undefined) return entry(place, there ?? "", "extra");
    if (there === undefined) return entry(place, desired, "missing");
    return sameRule(desired, there)
      ? entry(place, desired, "same")
      : { in: place, key: `rule ${i + 1}`, desired, held: there, state: "wrong" as const };
  });
}

function rulesOf(saved: Saved, table: string, chain: string): string[] {
  return (saved.get(table)?.rules ?? []).filter((each) => each.chain === chain)
    .map(({ rule }) => rule);
}

/** Returns an entry whose key is the rule itself. */
function entry(place: string, rule: string, state: KernelEntry["state"]): KernelEntry {
  return { in: place, key: rule, desired: "", held: "", state };
}

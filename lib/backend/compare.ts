/** Compares lists of rules, for both modes. */
import type { Difference } from "../model/kernel/differences.ts";

/** @param values `key` is absent for the whole place, `desired` and `held` if there is no value */
export function difference(
  type: Difference["type"],
  place: string,
  values: Partial<Pick<Difference, "key" | "desired" | "held">> = {},
): Difference {
  return { type, in: place, key: "", desired: "", held: "", ...values };
}

/** Returns the rules that the other list lacks, or has less often. Rules with the same key are equal. */
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
  /** Rules with the same key can stand in each other's place. `keyOf` by default. */
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

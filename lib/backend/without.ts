/**
 * Subtracts lists that may contain equal entries.
 * @module
 */

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

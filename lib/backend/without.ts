/**
 * The difference of two lists in which the same may stand more than once.
 *
 * @module
 */

/** The rules that the others do not have, or not as often; those with the same key are the same. */
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

/**
 * What operations leave in the table, in numbers.
 *
 * @module
 */
import type { Operations } from "./diff.ts";

/** Sets a count; what there is none of is not counted. */
export function setCount<K>(counts: Map<K, number>, key: K, count: number): void {
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

/** By set or map, how many elements more the operations leave. */
export function countElements(
  { deleteElements, addElements }: Pick<Operations, "deleteElements" | "addElements">,
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { set: { name: set } } of addElements) counts.set(set, (counts.get(set) ?? 0) + 1);
  for (const { set: { name: set } } of deleteElements) counts.set(set, (counts.get(set) ?? 0) - 1);
  return counts;
}

/** By chain that is new or changed, how many rules it has; by set or map, 0; `undefined`: gone. */
export function countRules(
  { addSets, addChains, rewriteChains, deleteChains, deleteSets }: Operations,
): Map<string, number | undefined> {
  const chains = [...addChains, ...rewriteChains.map(({ after }) => after)];
  return new Map([
    ...[...deleteChains, ...deleteSets].map(({ name }) => [name, undefined] as const),
    ...addSets.map(({ name }) => [name, 0] as const),
    ...chains.map(({ name, rules }) => [name, rules.length] as const),
  ]);
}

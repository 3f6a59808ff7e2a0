/**
 * The script of a step.
 *
 * @module
 */
import type { Script } from "../../../model/kernel/dataplane.ts";
import { append } from "../../../model/values/lists.ts";
import type { ChainRewrite, Operations, References } from "./diff.ts";
import { countOperations, renderingStep } from "./script.ts";
import { frontendOfKey, printKey } from "./keys.ts";
import type { Element } from "./objects.ts";

/** A step from what was applied last, with what holds once the kernel has taken it. */
export interface PartialScript extends Script {
  readonly kind: "partial";
  /** The text, cut into transactions. */
  readonly transactions: readonly string[];
  /** New counts of the shared objects whose count changed. */
  readonly references: References;
  /** By set or map, how many elements more there are. */
  readonly elements: ReadonlyMap<string, number>;
  /** By chain that is new or changed, how many rules it has; by set or map, 0; `undefined`: gone. */
  readonly rules: ReadonlyMap<string, number | undefined>;
}

/** Of a step that changes none of what is known. */
export const NO_COUNTS: Pick<PartialScript, "references" | "elements" | "rules"> = {
  references: new Map(),
  elements: new Map(),
  rules: new Map(),
};

/**
 * Writes a step; one of very many elements in parts: nft takes 2 kB for each one of a transaction.
 *
 * @param operations the step
 * @param options what holds then; `weight`: elements of a part, more or less
 * @yields where other work can be done
 */
export function* toPartialScript(
  operations: Operations,
  { weight, ...counts }: Pick<PartialScript, "references" | "elements" | "rules"> & {
    readonly weight: number;
  },
): Generator<undefined, PartialScript> {
  const parts = isOnePart(operations, weight) ? [operations] : inParts(operations, weight);
  const transactions: string[] = [];
  for (const part of parts) append(transactions, yield* renderingStep(part));
  const text = transactions.join("");
  return {
    kind: "partial",
    transactions,
    text,
    bytes: text.length,
    operations: countOperations(operations),
    ...counts,
  };
}

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

/** No operations. */
export const NOTHING: Operations = {
  addSets: [],
  addChains: [],
  rewriteChains: [],
  deleteElements: [],
  addElements: [],
  deleteChains: [],
  deleteSets: [],
};

/** Returns true if a step adds and deletes no more elements than that. */
export function isOnePart({ addElements, deleteElements }: Operations, weight: number): boolean {
  return addElements.length + deleteElements.length <= weight;
}

/**
 * Cuts a step; what is about one frontend stays in one part. The rules that every packet meets change after all
 * elements: maps that are new to them are full then, and maps that go are still there.
 *
 * @param weight elements of a part, more or less
 * @yields chains and sets first, then elements, then the chains that all packets meet, then what goes when nothing
 *   leads there any more; some of them may be empty
 */
export function* inParts(operations: Operations, weight: number): Generator<Operations> {
  const { addSets, addChains, rewriteChains, deleteElements, addElements, ...gone } = operations;
  const going = new Set(gone.deleteChains.map(({ name }) => name));
  const whenOf = ({ after: { name, role } }: ChainRewrite) =>
    going.has(name) ? "last" : role === "fixed" || role === "base" ? "between" : "first";
  const rewrites = Map.groupBy(rewriteChains, whenOf);
  const rewritten = (when: ReturnType<typeof whenOf>) => rewrites.get(when) ?? [];
  yield { ...NOTHING, addSets, addChains, rewriteChains: rewritten("first") };
  const keyOf = ({ key }: Element) => printKey(frontendOfKey(key) ?? key);
  const added = Map.groupBy(addElements, keyOf);
  const deleted = Map.groupBy(deleteElements, keyOf);
  let part: { addElements: Element[]; deleteElements: Element[] } = {
    addElements: [],
    deleteElements: [],
  };
  for (const key of new Set([...deleted.keys(), ...added.keys()])) {
    append(part.addElements, added.get(key) ?? []);
    append(part.deleteElements, deleted.get(key) ?? []);
    if (part.addElements.length + part.deleteElements.length < weight) continue;
    yield { ...NOTHING, ...part };
    part = { addElements: [], deleteElements: [] };
  }
  yield { ...NOTHING, ...part };
  yield { ...NOTHING, rewriteChains: rewritten("between") };
  yield { ...NOTHING, ...gone, rewriteChains: rewritten("last") };
}

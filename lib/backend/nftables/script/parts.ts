/**
 * Cuts a step of very many elements: nft takes 2 kB for each one of a transaction.
 *
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import type { ChainRewrite, Operations } from "./diff.ts";
import { frontendOfKey, printKey } from "./keys.ts";
import type { Element } from "./objects.ts";

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

/** Whether a step adds and deletes no more elements than that. */
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

/**
 * What frontends leave behind that are served on: packets under way still look there.
 *
 * @module
 */
import type { Operations } from "./diff.ts";
import { frontendOfKey, printKey } from "./keys.ts";
import { COUNTING_ROLE } from "./sets.ts";
import type { Element } from "./objects.ts";

/**
 * Finds the elements of frontends that leave a map and are served on: by another map's slots, or by
 * session affinity. Slots of a frontend that stays in the map are none of them, nor those of one that
 * goes.
 */
export function leftBehind(
  { deleteElements, addElements }: Pick<Operations, "deleteElements" | "addElements">,
): ReadonlySet<Element> {
  const added = new Set(addElements.filter(isFirst).map(placeOf));
  const gone = deleteElements.filter(({ set }) => set.role === COUNTING_ROLE);
  const unserved = new Set(gone.filter((each) => !added.has(placeOf(each))).map(frontendOf));
  const left = deleteElements.filter(isFirst).filter((each) =>
    LOOKED_UP.has(each.set.role) && !added.has(placeOf(each)) && !unserved.has(frontendOf(each))
  );
  if (left.length === 0) return new Set();
  const places = new Set(left.map(placeOf));
  return new Set(deleteElements.filter((each) => places.has(placeOf(each))));
}

/** Where a packet looks that has begun on a frontend's way. */
const LOOKED_UP: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "shortCircuits"]);

/** A frontend in a map has slot 0, if any. */
function isFirst({ key }: Element): boolean {
  return key.type !== "slot" || key.slot === 0;
}

/** Names a frontend in a map. */
function placeOf(element: Element): string {
  return `${element.set.name} ${frontendOf(element)}`;
}

/** Node ports of both families have the same key. */
function frontendOf({ set, key }: Element): string {
  return `${set.family} ${printKey(frontendOfKey(key) ?? key)}`;
}

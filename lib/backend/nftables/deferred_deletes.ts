/** Spreads the deletion of very many elements over several steps, so that other Services need not wait. */
import type { Delta } from "./delta.ts";
import { type Key, printKey, type TableSet } from "./sets.ts";
import { type Element, elementsOf } from "./table.ts";

/** Elements that nothing leads to once their frontend is gone or has fewer endpoints. */
const UNREACHABLE: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "hairpins"]);

export class DeferredDeletes {
  readonly #waiting = new Elements();
  /** The last step had changes of its own, and deleted no waiting element. */
  #gaveWay = false;

  get isEmpty(): boolean {
    return this.#waiting.isEmpty;
  }

  clear(): void {
    this.#waiting.clear();
  }

  /** Returns a repair without the deletions that wait. */
  leaveOut(repair: Delta): Delta {
    const isDue = (each: Element) => !this.#waiting.has(each);
    return { ...repair, deleteElements: repair.deleteElements.filter(isDue) };
  }

  /**
   * Limits the deletions to `most` elements, unless packets reach more. Elements that wait go in a step without other
   * changes, or in the second one with them.
   */
  limit(delta: Delta, most: number): Delta {
    const { deleteElements, addElements, deleteSets } = delta;
    if (this.isEmpty && deleteElements.length <= most) return delta;
    const goingSets = new Set(deleteSets.map(({ name }) => name));
    const added = new Elements();
    for (const each of elementsOf(addElements)) added.add(each);
    const due: Element[] = [];
    for (const each of added.values()) {
      const element = this.#waiting.take(each);
      if (element !== undefined) due.push(element);
    }
    for (const each of goingSets.size > 0 ? this.#waiting.values() : []) {
      if (goingSets.has(each.set.name)) this.#waiting.take(each);
    }
    for (const each of deleteElements) {
      const mayWait = UNREACHABLE.has(each.set.role) && !added.has(each) &&
        !goingSets.has(each.set.name);
      if (mayWait && due.length >= most) this.#waiting.add(each);
      else due.push(each);
    }
    this.#gaveWay = !this.#gaveWay && due.length + addElements.length > 0;
    for (const each of this.#gaveWay ? [] : this.#waiting.values()) {
      if (due.length >= most) break;
      this.#waiting.take(each);
      due.push(each);
    }
    return { ...delta, deleteElements: due };
  }
}

/** Elements by set and key. Slots have numbers as keys, because it takes 20 ms to print 50,000 keys. */
class Elements {
  readonly #groups = new Map<string, Map<number, Element>>();
  #last: { readonly set: TableSet; readonly frontend: Key; readonly group: string } | undefined;

  get isEmpty(): boolean {
    return this.#groups.size === 0;
  }

  clear(): void {
    this.#groups.clear();
  }

  has(element: Element): boolean {
    return this.#groups.get(this.#groupOf(element))?.has(slotOf(element)) === true;
  }

  add(element: Element): void {
    const group = this.#groupOf(element);
    const known = this.#groups.get(group);
    if (known) known.set(slotOf(element), element);
    else this.#groups.set(group, new Map([[slotOf(element), element]]));
  }

  /** Removes the element with the same set and key, and returns it. */
  take(element: Element): Element | undefined {
    const name = this.#groupOf(element);
    const group = this.#groups.get(name);
    const found = group?.get(slotOf(element));
    group?.delete(slotOf(element));
    if (group?.size === 0) this.#groups.delete(name);
    return found;
  }

  *values(): Generator<Element, void> {
    for (const group of this.#groups.values()) yield* group.values();
  }

  /** Returns the set with the frontend of a slot, or with another key. Slots of one frontend share its object. */
  #groupOf({ set, key }: Element): string {
    const frontend = key.type === "slot" ? key.frontend : key;
    const last = this.#last;
    if (last?.frontend === frontend && last.set === set) return last.group;
    const group = `${set.name} ${printKey(frontend)}`;
    this.#last = { set, frontend, group };
    return group;
  }
}

function slotOf({ key }: Element): number {
  return key.type === "slot" ? key.slot : 0;
}

/** Spreads the deletion of very many elements over several steps, so that other Services need not wait. */
import type { Delta } from "./delta.ts";
import { type Element, elementId, elementsOf } from "./table.ts";

/** Elements that nothing leads to once their frontend is gone or has fewer endpoints. */
const UNREACHABLE: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "hairpins"]);

const BATCH = 200;

export class DeferredDeletes {
  /** By `elementId`. */
  readonly #waiting = new Map<string, Element>();
  /** The last step had changes of its own, and deleted no waiting element. */
  #gaveWay = false;

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  clear(): void {
    this.#waiting.clear();
  }

  /** Returns a repair without the deletions that wait. */
  leaveOut(repair: Delta): Delta {
    const isDue = (each: Element) => !this.#waiting.has(elementId(each));
    return { ...repair, deleteElements: repair.deleteElements.filter(isDue) };
  }

  /**
   * Limits the deletions to `most` elements, unless packets reach more. Elements that wait go in a step without other
   * changes, or in the second one with them. @yields where other work can be done
   */
  *limiting(delta: Delta, most: number): Generator<undefined, Delta> {
    const { deleteElements, addElements, deleteSets } = delta;
    if (this.isEmpty && deleteElements.length <= most) return delta;
    const goingSets = new Set(deleteSets.map(({ name }) => name));
    const added = new Set([...elementsOf(addElements)].map(elementId));
    const due: Element[] = [];
    for (const id of added) {
      const element = this.#waiting.get(id);
      if (element !== undefined) due.push(element);
      this.#waiting.delete(id);
    }
    for (const [id, { set }] of goingSets.size > 0 ? this.#waiting : []) {
      if (goingSets.has(set.name)) this.#waiting.delete(id);
    }
    for (const [i, each] of deleteElements.entries()) {
      if (i % BATCH === 0) yield;
      const id = elementId(each);
      const mayWait = UNREACHABLE.has(each.set.role) && !added.has(id) &&
        !goingSets.has(each.set.name);
      if (mayWait && due.length >= most) this.#waiting.set(id, each);
      else due.push(each);
    }
    this.#gaveWay = !this.#gaveWay && due.length + addElements.length > 0;
    for (const [id, each] of this.#gaveWay ? [] : this.#waiting) {
      if (due.length >= most) break;
      this.#waiting.delete(id);
      due.push(each);
    }
    return { ...delta, deleteElements: due };
  }
}

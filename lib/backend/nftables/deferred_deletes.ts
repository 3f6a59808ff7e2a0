/**
 * Spreads the deletion of very many elements over several steps, so that other Services need not
 * wait for all of it.
 *
 * @module
 */
import type { Delta } from "./delta.ts";
import { type Element, elementId, elementsOf } from "./table.ts";

/** Elements that nothing leads to once their frontend is gone or has fewer endpoints. */
const UNREACHABLE: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "hairpins"]);

/** The elements that the table still has, and that later steps delete. */
export class DeferredDeletes {
  readonly #waiting = new Map<string, Element>();

  /** Returns true if no element waits. */
  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** Forgets all elements: the table was replaced. */
  clear(): void {
    this.#waiting.clear();
  }

  /** Returns a repair without the deletions that wait: later steps make them. */
  leaveOut(repair: Delta): Delta {
    const isDue = (each: Element) => !this.#waiting.has(elementId(each));
    return { ...repair, deleteElements: repair.deleteElements.filter(isDue) };
  }

  /**
   * Limits the deletions of a step. What no packet can reach waits; earlier steps' elements fill the
   * room that is left.
   *
   * @param most elements
   */
  limit(delta: Delta, most: number): Delta {
    const { deleteElements, addElements, deleteSets } = delta;
    if (this.isEmpty && deleteElements.length <= most) return delta;
    const goingSets = new Set(deleteSets.map(({ name }) => name));
    const added = new Set<string>();
    for (const each of elementsOf(addElements)) added.add(elementId(each));
    const due: Element[] = [];
    for (const id of added) {
      const element = this.#waiting.get(id);
      if (element !== undefined) due.push(element);
      this.#waiting.delete(id);
    }
    for (const [id, { set }] of goingSets.size > 0 ? this.#waiting : []) {
      if (goingSets.has(set.name)) this.#waiting.delete(id);
    }
    for (const element of deleteElements) {
      const id = elementId(element);
      const mayWait = UNREACHABLE.has(element.set.role) && !added.has(id) &&
        !goingSets.has(element.set.name);
      if (mayWait && due.length >= most) this.#waiting.set(id, element);
      else due.push(element);
    }
    for (const [id, element] of this.#waiting) {
      if (due.length >= most) break;
      this.#waiting.delete(id);
      due.push(element);
    }
    return { ...delta, deleteElements: due };
  }
}

/** Spreads the deletion of very many elements over several steps, so that other Services need not wait. */
import { append } from "../../model/values/lists.ts";
import type { Delta } from "./delta.ts";
import { type Element, elementId, elementsOf } from "./table.ts";

/** Elements that nothing leads to once their frontend is gone or has fewer endpoints. */
const UNREACHABLE: ReadonlySet<string> = new Set(["endpoints", "localEndpoints", "hairpins"]);

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
   * changes, or in the second one with them.
   */
  limit(delta: Delta, most: number): Delta {
    const { deleteElements, addElements, deleteSets } = delta;
    if (this.isEmpty && deleteElements.length <= most) return delta;
    const goingSets = new Set(deleteSets.map(({ name }) => name));
    const added = new Set([...elementsOf(addElements)].map(elementId));
    const due = [...added].flatMap((id) => this.#take(id));
    for (const [id, { set }] of goingSets.size > 0 ? this.#waiting : []) {
      if (goingSets.has(set.name)) this.#take(id);
    }
    for (const each of deleteElements) {
      const mayWait = due.length >= most && UNREACHABLE.has(each.set.role) &&
        !goingSets.has(each.set.name) && !added.has(elementId(each));
      if (mayWait) this.#waiting.set(elementId(each), each);
      else due.push(each);
    }
    this.#gaveWay = !this.#gaveWay && due.length + addElements.length > 0;
    for (const id of this.#gaveWay ? [] : this.#waiting.keys()) {
      if (due.length >= most) break;
      append(due, this.#take(id));
    }
    return { ...delta, deleteElements: due };
  }

  #take(id: string): Element[] {
    const element = this.#waiting.get(id);
    this.#waiting.delete(id);
    return element ? [element] : [];
  }
}

/**
 * Which elements other programs have touched since the table was as it should be.
 *
 * @module
 */
import { type Contents, parsingListing } from "../kernel/contents.ts";
import { TABLE } from "../script/objects.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";

/** What became of an element, and the element as the monitor prints it. */
interface ElementEvent {
  readonly isDeletion: boolean;
  readonly set: string;
  readonly text: string;
}

/** Most events that are kept; where there are more, all elements have to be compared. */
export const MAX_TOUCHED = 1_000;

const LINE = new RegExp(`^(\\w+) element ${TABLE} (\\S+) \\{ (.*) \\}$`);

/** By set, by key, what is there now: its data and what it has besides; `undefined`: gone. */
export type TouchedElements = ReadonlyMap<
  string,
  ReadonlyMap<string, { readonly data: string; readonly remark: string } | undefined>
>;

/** What a transaction of another program touched. */
export interface TouchedByOne {
  /** What was printed of elements, a line for each; `undefined`: not all of it is known. */
  readonly elementLines: readonly string[] | undefined;
  /** More than elements was changed. */
  readonly touchesStructure: boolean;
}

/** Gathers what `nft monitor` tells of elements. */
export class Touched {
  #events: ElementEvent[] | undefined = [];
  #isStructure = false;

  /** Returns true if only elements were touched, and all of them are known. */
  get isElementsOnly(): boolean {
    return (this.#events?.length ?? 0) > 0 && !this.#isStructure;
  }

  /** The words of what was touched: addresses, ports, numbers of slots. */
  get words(): ReadonlySet<string> {
    return new Set(this.#events?.flatMap(({ text }) => text.split(/[^\w.:]+/)));
  }

  /** Takes what the monitor printed of another program's transaction. */
  add({ elementLines: lines, touchesStructure }: TouchedByOne): void {
    this.#isStructure ||= touchesStructure;
    const events = lines?.map(parseEvent);
    const isKnown = events?.every((each) => each !== undefined) ?? false;
    if (!isKnown || (this.#events?.length ?? 0) + (events?.length ?? 0) > MAX_TOUCHED) this.all();
    for (const event of events ?? []) if (event) this.#events?.push(event);
  }

  /** Anything may have been touched. */
  all(): void {
    this.#events = undefined;
    this.#isStructure = true;
  }

  /** The table is as it should be. */
  clear(): void {
    this.#events = [];
    this.#isStructure = false;
  }

  /**
   * What was touched, which is then forgotten.
   *
   * @param isKnown whether the table should have an element: one that is deleted was there before
   * @returns `undefined` where all elements have to be compared
   */
  take(isKnown: (set: string, key: string) => boolean): TouchedElements | undefined {
    const events = this.#events;
    this.clear();
    const touched = new Map<string, Map<string, { data: string; remark: string } | undefined>>();
    for (const { isDeletion, set, text } of events ?? []) {
      const contents = parseElement(set, text);
      const [[key, data] = []] = contents?.sets.get(set) ?? [];
      if (contents === undefined || key === undefined || data === undefined) return undefined;
      const known = touched.get(set) ?? new Map<string, { data: string; remark: string }>();
      if (isDeletion && !known.has(key) && !isKnown(set, key)) return undefined;
      const remark = contents.remarks.get(set)?.get(key) ?? "";
      touched.set(set, known.set(key, isDeletion ? undefined : { data, remark }));
    }
    return events && touched;
  }
}

function parseEvent(line: string): ElementEvent | undefined {
  const [, verb = "", set, text] = LINE.exec(line) ?? [];
  if (set === undefined || text === undefined) return undefined;
  return { isDeletion: verb !== "add", set, text };
}

/** Elements are read as in listings. */
function parseElement(set: string, text: string): Contents | undefined {
  return atOnce(
    parsingListing(`table ${TABLE} {\n\tset ${set} {\n\t\telements = { ${text} }\n\t}\n}`),
  );
}

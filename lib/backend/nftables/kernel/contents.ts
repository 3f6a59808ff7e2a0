/**
 * What the table should hold, and what it does: for `signpost verify` and `explain`.
 *
 * @module
 */
import type { DesiredState } from "../../../model/kernel/desired.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import { eachLine } from "../../../model/values/text.ts";
import { tableOf } from "../delta.ts";
import { parseKey, printListedKey } from "../script/keys.ts";
import { type Chain, type Element, elementsOf, type Table } from "../script/objects.ts";
import { commentOf } from "../text.ts";
import { setNamed } from "../script/sets.ts";
import { canonicalDeclaration, hookRule, parseHook } from "./declaration.ts";

/** The contents of a table, comparable. */
export interface Contents {
  /** By set or map, by key, the data; `""` in sets. */
  readonly sets: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** By set or map, its declaration; see `canonicalDeclaration`. */
  readonly declarations: ReadonlyMap<string, string>;
  /** By set or map, by key, what an element has besides: a comment, a time, a counter. */
  readonly remarks: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** By chain, its rules as they are written or printed; a base chain's hook comes first. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** By chain, how many of its first rules may stand in any order; as printed, that is not known. */
  readonly lookUps: ReadonlyMap<string, number>;
  /** The table's flags, such as `dormant`: then no packet sees it (nft(8)). */
  readonly flags: string;
  /** What else is in the table, by the line that begins it: `counter hits`, `comment "…"`. */
  readonly others: readonly string[];
}

/** What an empty table has. */
export const NO_CONTENTS: Contents = {
  sets: new Map(),
  declarations: new Map(),
  remarks: new Map(),
  chains: new Map(),
  lookUps: new Map(),
  flags: "",
  others: [],
};

/** What the table holds when it is in the desired state. */
export function desiredContents(state: DesiredState): Contents {
  return atOnce(readingTable(atOnce(tableOf(state))));
}

/** The key of an element as listings have it. */
export function elementKey({ key }: Pick<Element, "key">): string {
  return printListedKey(key);
}

/** Elements or lines that are read at one go. */
const BATCH = 100;

/**
 * Returns the contents that a table should have.
 *
 * @yields where other work can be done
 */
export function* readingTable(
  table: Pick<Table, "sets" | "chains" | "elements">,
): Generator<undefined, Contents> {
  const sets = new Map<string, Map<string, string>>();
  const declarations = new Map<string, string>();
  const remarks = new Map<string, Map<string, string>>();
  for (const { kind, name, body } of table.sets) {
    sets.set(name, new Map());
    declarations.set(name, canonicalDeclaration(kind, body.split("; ")));
  }
  let count = 0;
  for (const element of elementsOf(table.elements)) {
    if (++count % BATCH === 0) yield;
    const key = elementKey(element);
    sets.get(element.set.name)?.set(key, element.data);
    remark(remarks, { set: element.set.name, key, text: commentOf(element) });
  }
  const rules = new Map(table.chains.map((chain) => [chain.name, rulesOf(chain)]));
  const lookUps = new Map(
    table.chains.flatMap(({ name, lookUps }) =>
      lookUps === undefined ? [] : [[name, lookUps] as const]
    ),
  );
  return { sets, declarations, remarks, chains: rules, lookUps, flags: "", others: [] };
}

function rulesOf({ hook, rules }: Chain): readonly string[] {
  return hook === undefined ? rules : [hookRule(`type ${hook}`, "accept"), ...rules];
}

function remark(
  remarks: Map<string, Map<string, string>>,
  { set, key, text }: { readonly set: string; readonly key: string; readonly text: string },
): void {
  if (text === "") return;
  const known = remarks.get(set);
  if (known) known.set(key, text);
  else remarks.set(set, new Map([[key, text]]));
}

/** An element in a listing. */
export interface ListedElement {
  readonly set: string;
  readonly key: string;
  /** `""` in a set. */
  readonly data: string;
  /** As in `Contents.remarks`; `""`: nothing. */
  readonly remark: string;
}

/**
 * Reads what `nft list table` prints.
 *
 * @param onElement is told of each element, where given; then the contents have none
 * @yields where other work can be done
 * @returns `undefined` where there is no table in the text
 */
export function* parsingListing(
  listing: string,
  onElement?: (element: ListedElement) => void,
): Generator<undefined, Contents | undefined> {
  if (!/^table /m.test(listing)) return undefined;
  const reader = new Reader(onElement);
  let count = 0;
  for (const line of eachLine(listing)) {
    if (++count % BATCH === 0) yield;
    reader.read(line);
  }
  return reader;
}

const BLOCK = /^\t(\S.*) \{(?: # .*)?$/;
const NAMED = /^(set|map|flowtable|chain) (\S+)$/;

/** nft 1.1.7 says behind a set's size how many elements it has. */
const COUNT = /\s+# count \d+$/;

/** Takes a listing line by line. */
class Reader implements Contents {
  readonly sets = new Map<string, Map<string, string>>();
  readonly declarations = new Map<string, string>();
  readonly remarks = new Map<string, Map<string, string>>();
  readonly chains = new Map<string, string[]>();
  readonly lookUps = new Map<string, number>();
  flags = "";
  readonly others: string[] = [];
  readonly #onElement: (element: ListedElement) => void;
  /** What becomes of the lines of the block that is open. */
  #block: { readonly add: (line: string) => void; readonly end?: () => void } | undefined;

  constructor(onElement?: (element: ListedElement) => void) {
    this.#onElement = onElement ?? ((element) => this.#keep(element));
  }

  #keep({ set, key, data, remark: text }: ListedElement): void {
    this.sets.get(set)?.set(key, data);
    remark(this.remarks, { set, key, text });
  }

  read(line: string): void {
    if (line === "\t}") {
      this.#block?.end?.();
      this.#block = undefined;
    } else if (line.startsWith("\t\t")) {
      this.#block?.add(line.trim());
    } else if (BLOCK.test(line)) {
      const [, head = ""] = BLOCK.exec(line) ?? [];
      const [, kind = "", name = ""] = NAMED.exec(head) ?? [];
      if (kind === "") this.others.push(head);
      this.#block = kind === "chain"
        ? this.#chain(name)
        : kind === ""
        ? { add() {} }
        : this.#set(kind, name);
    } else if (line.startsWith("\t")) {
      const [, flags] = /^flags (.*)$/.exec(line.trim()) ?? [];
      if (flags === undefined) this.others.push(line.trim());
      else this.flags = flags;
    }
  }

  #chain(name: string) {
    const rules: string[] = [];
    this.chains.set(name, rules);
    return { add: (line: string) => void rules.push(parseHook(line) ?? line) };
  }

  #set(kind: string, name: string) {
    this.sets.set(name, new Map());
    const statements: string[] = [];
    const set = setNamed(name);
    let isInElements = false;
    const add = (line: string) => {
      isInElements ||= line.startsWith("elements = {");
      if (!isInElements) return void statements.push(line.replace(COUNT, ""));
      const text = line.replace(/^elements = \{ /, "").replace(/( \})?,?$/, "");
      isInElements = !line.endsWith("}");
      for (const { key: printed, data, remark } of parseElements(text)) {
        const parsed = set && parseKey(set, printed);
        const key = parsed ? printListedKey(parsed) : printed;
        this.#onElement({ set: name, key, data, remark });
      }
    };
    const end = () => void this.declarations.set(name, canonicalDeclaration(kind, statements));
    return { add, end };
  }
}

/** What stands between the commas that are in no quotes. */
const ELEMENTS = /(?:"[^"]*"|[^",])+/g;
const KEY = /^(\S+(?: \. \S+)*)(.*)$/;
const BESIDES = /^((?: (?:"[^"]*"|(?!: )\S+))*)(?: : (.*))?$/;

/** The elements that stand on one line of a listing. */
function* parseElements(text: string): Iterable<Omit<ListedElement, "set">> {
  for (const [element] of text.matchAll(ELEMENTS)) {
    const [, key = "", rest = ""] = KEY.exec(element.trim()) ?? [];
    if (key === "") continue;
    const [, besides = rest, data = ""] = BESIDES.exec(rest) ?? [];
    yield { key, data, remark: besides.trim() };
  }
}

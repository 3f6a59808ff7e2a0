/** Describes signpost's table as data. Only `text.ts` has the spelling of nft's commands. */
import type { Destination } from "../../model/kernel/desired.ts";
import { familyOf, ipv4Number } from "../../model/values/address.ts";
import { type FrontendKey, frontendOfKey, type Key, printKey, type TableSet } from "./sets.ts";

/** The family and the name of our table. */
export const TABLE_WORDS = ["inet", "signpost"] as const;

export const TABLE = TABLE_WORDS.join(" ");

export interface Element {
  readonly type: "element";
  readonly set: TableSet;
  readonly key: Key;
  /** `""` in a set. */
  readonly data: string;
  /** The name of the service port, which nft prints; `""` if nft prints none. */
  readonly comment: string;
}

export interface Slots {
  readonly type: "slots";
  readonly set: TableSet;
  readonly key: FrontendKey;
  readonly first: number;
  readonly destinations: readonly Destination[];
}

/** An element, or all slots of a frontend: as elements, the slots of a large cluster take much memory. */
export type Entry = Element | Slots;

/** Describes a chain. Two service ports that need a chain of one name need the same rules. */
export interface Chain {
  readonly type: "chain";
  readonly name: string;
  /** Such as `nat hook output priority -101`; absent: packets come by a jump alone. */
  readonly hook?: string;
  readonly rules: readonly string[];
  /** True if packets to all Services meet it. */
  readonly isCommon?: boolean;
}

export interface ChainRewrite {
  readonly before: Chain;
  readonly after: Chain;
}

export type TableObject = Entry | Chain | TableSet;

/** The number of service ports that need each shared object. */
export type References = ReadonlyMap<ObjectId, number>;

export interface Table {
  readonly sets: readonly TableSet[];
  readonly chains: readonly Chain[];
  readonly elements: readonly Entry[];
  readonly references: References;
}

/** Identifies an object in its table: by a number for IPv4 cluster IPs, of which there are very many. */
export type ObjectId = string | number;

export function objectId(object: TableObject): ObjectId {
  switch (object.type) {
    case "element":
      return clusterIPNumber(object) ?? elementId(object);
    case "slots":
      return elementId(object);
    case "chain":
    case "set":
      return `${object.type} ${object.name}`;
  }
}

/** Returns the id of an IPv4 cluster IP. Only these ids are numbers. */
function clusterIPNumber({ set, key }: Element): number | undefined {
  return set.role === "clusterIPs" && key.type === "text" && familyOf(key.text) === 4
    ? ipv4Number(key.text)
    : undefined;
}

/** Returns the id of an element, or of the slots of a frontend. */
export function elementId({ type, set, key }: Pick<Entry, "type" | "set" | "key">): string {
  return `${type} ${set.name} ${printKey(key)}`;
}

/** Names the frontend of an entry with its family: node ports of both families have the same key. */
export function frontendOf({ set, key }: Pick<Entry, "set" | "key">): string {
  return `${set.family} ${printKey(frontendOfKey(key) ?? key)}`;
}

/** Returns true if two objects of the same id have the same content. */
export function hasSameContent(a: TableObject, b: TableObject): boolean {
  if (a.type === "element" && b.type === "element") {
    return a.data === b.data && a.comment === b.comment;
  }
  if (a.type === "chain" && b.type === "chain") {
    return a.rules.length === b.rules.length && a.rules.every((rule, i) => rule === b.rules[i]);
  }
  // `delta.ts` compares each slot. Two sets of one name differ in clients of session affinity alone.
  return a.type === "set" && b.type === "set";
}

export function slotData({ address, port }: Destination): string {
  return `${address} . ${port}`;
}

export function element(
  set: TableSet,
  key: Key,
  options: { readonly data?: string; readonly comment?: string } = {},
): Element {
  return { type: "element", set, key, data: options.data ?? "", comment: options.comment ?? "" };
}

export function chain(
  name: string,
  rules: readonly string[],
  options: Pick<Chain, "hook" | "isCommon"> = {},
): Chain {
  return { type: "chain", name, rules, ...options };
}

export function sizeOf(entry: Entry): number {
  return entry.type === "slots" ? entry.destinations.length : 1;
}

/** Returns the slots of a frontend from `start` to before `end`, counted from its first one here. */
export function sliceOf(slots: Slots, start: number, end?: number): Slots {
  const { first, destinations } = slots;
  return { ...slots, first: first + start, destinations: destinations.slice(start, end) };
}

export function* elementsOf(entries: Iterable<Entry>): Generator<Element, void> {
  for (const entry of entries) {
    if (entry.type === "element") yield entry;
    else {
      for (const [i, destination] of entry.destinations.entries()) {
        yield slotElement(entry, entry.first + i, slotData(destination));
      }
    }
  }
}

/** Returns the element of a slot. For a deletion, `data` is `""`. */
export function slotElement(
  { set, key: frontend }: Pick<Slots, "set" | "key">,
  slot: number,
  data: string,
): Element {
  return element(set, { type: "slot", frontend, slot }, { data });
}

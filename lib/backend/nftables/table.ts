/**
 * Describes signpost's table as data. Nothing here knows how nft spells a command.
 *
 * @module
 */
import type { Destination } from "../../model/kernel/desired.ts";
import { familyOf, ipv4Number } from "../../model/values/address.ts";
import { type FrontendKey, type Key, printKey } from "./keys.ts";
import type { TableSet } from "./sets.ts";

/** Name of the one table, in family `inet`. */
export const TABLE = "inet signpost";

/** An element of one of the table's sets or maps. */
export interface Element {
  readonly type: "element";
  readonly set: TableSet;
  readonly key: Key;
  /** The value of the key; `""` in a set. */
  readonly data: string;
  /** The name of the service port; `""` if it is for none in particular. */
  readonly comment: string;
}

/** Consecutive slots of one frontend in an endpoint map. */
export interface Slots {
  readonly type: "slots";
  readonly set: TableSet;
  readonly key: FrontendKey;
  /** The slot of the first destination. */
  readonly first: number;
  readonly destinations: readonly Destination[];
}

/** An element, or many slots in one object: as elements, a large cluster's take much memory. */
export type Entry = Element | Slots;

/**
 * Names the purpose of a chain. `base`: the kernel calls it; `fixed`: every table has it; `frontend`: some
 * frontends lead to it; `affinity`: it looks for a client's endpoint; `dnat`: it sends to an endpoint.
 */
export type ChainRole = "base" | "fixed" | "frontend" | "affinity" | "dnat";

/** A chain. Two chains of one name have the same rules. */
export interface Chain {
  readonly type: "chain";
  readonly role: ChainRole;
  readonly name: string;
  /** The hook of a base chain, such as `nat hook output priority -101`; absent: only rules jump to it. */
  readonly hook?: string;
  readonly rules: readonly string[];
  /** The number of rules at the beginning that look for a client: their order does not matter. */
  readonly lookUps?: number;
}

/** A chain before and after. */
export interface ChainRewrite {
  readonly before: Chain;
  readonly after: Chain;
}

/** A part of the table that comes and goes with the services. */
export type TableObject = Entry | Chain | TableSet;

/** The number of services that need each shared object, by id. */
export type References = ReadonlyMap<ObjectId, number>;

/** A table as a state wants it. */
export interface Table {
  readonly sets: readonly TableSet[];
  readonly chains: readonly Chain[];
  readonly elements: readonly Entry[];
  readonly references: References;
}

/** A number for IPv4 cluster IPs, of which there are very many: see `vipId`. */
export type ObjectId = string | number;

/** Returns the name of an object in the table. */
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

/** Returns the id of an IPv4 cluster IP. Only these ids are numbers, so it names the set, too. */
function clusterIPNumber({ set, key }: Element): number | undefined {
  return set.role === "clusterIPs" && key.type === "address" && familyOf(key.address) === 4
    ? ipv4Number(key.address)
    : undefined;
}

/** Returns the name of an element, or of the slots of a frontend. */
export function elementId({ type, set, key }: Pick<Entry, "type" | "set" | "key">): string {
  return `${type} ${set.name} ${printKey(key)}`;
}

/** Returns true if two objects of the same id hold the same. */
export function sameContent(a: TableObject, b: TableObject): boolean {
  if (a.type === "element" && b.type === "element") {
    return a.data === b.data && a.comment === b.comment;
  }
  if (a.type === "chain" && b.type === "chain") {
    return a.rules.length === b.rules.length && a.rules.every((rule, i) => rule === b.rules[i]);
  }
  // Slots are compared one by one; sets have no content but their clients.
  return a.type === "set" && b.type === "set";
}

/** Returns the data of a slot: `address . port`. */
export function slotData({ address, port }: Destination): string {
  return `${address} . ${port}`;
}

/** Makes an element; its key must be of its set's type. */
export function element(
  set: TableSet,
  key: Key,
  options: { readonly data?: string; readonly comment?: string } = {},
): Element {
  return { type: "element", set, key, data: options.data ?? "", comment: options.comment ?? "" };
}

/** Returns the number of elements of an entry. */
export function sizeOf(entry: Entry): number {
  return entry.type === "slots" ? entry.destinations.length : 1;
}

/** Yields each entry as elements. */
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

/** Makes the element of one slot; `data` is empty to delete it. */
export function slotElement(
  { set, key: frontend }: Pick<Slots, "set" | "key">,
  slot: number,
  data: string,
): Element {
  return element(set, { type: "slot", frontend, slot }, { data });
}

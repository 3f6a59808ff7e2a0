/**
 * What signpost's table is made of, as data. Nothing here knows how nft spells a command.
 *
 * @module
 */
import type { Destination } from "../../../model/kernel/desired.ts";
import { familyOf, ipv4Number } from "../../../model/values/address.ts";
import { type FrontendKey, type Key, printKey } from "./keys.ts";
import type { TableSet } from "./sets.ts";

/** Name of the one table, in family `inet`. */
export const TABLE = "inet signpost";

/** An element of one of the table's sets or maps. */
export interface Element {
  readonly type: "element";
  readonly set: TableSet;
  readonly key: Key;
  /** What the key maps to; `""` in a set. */
  readonly data: string;
  /** Who it is for; `""`: no Service in particular. Names only, see `readName` in the decoders. */
  readonly comment: string;
}

/** The slots of one frontend in an endpoint map, from 0 on. */
export interface Slots {
  readonly type: "slots";
  readonly set: TableSet;
  readonly key: FrontendKey;
  readonly destinations: readonly Destination[];
}

/**
 * What a chain is for. `base`: the kernel calls it; `fixed`: every table has it; `frontend`: some
 * frontends lead to it; `affinity`: it looks for a client's endpoint; `dnat`: it sends to an endpoint.
 */
export type ChainRole = "base" | "fixed" | "frontend" | "affinity" | "dnat";

/** A chain. Its name tells its rules: two chains of one name are the same. */
export interface Chain {
  readonly type: "chain";
  readonly role: ChainRole;
  readonly name: string;
  /** The hook of a base chain, such as `nat hook output priority -101`; absent: only rules jump to it. */
  readonly hook?: string;
  readonly rules: readonly string[];
  /** How many rules at the beginning look for a client: their order does not matter. */
  readonly lookUps?: number;
}

/** A part of the table that comes and goes with the services. */
export type TableObject = Element | Slots | Chain | TableSet;

/** A number for IPv4 cluster IPs, of which there are very many: see `vipId`. */
export type ObjectId = string | number;

/** What names an object in the table. */
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

/** Of a cluster IP. Only those of IPv4 are numbers, so it says which set it is of. */
function clusterIPNumber({ set, key }: Element): number | undefined {
  return set.role === "clusterIPs" && key.type === "address" && familyOf(key.address) === 4
    ? ipv4Number(key.address)
    : undefined;
}

/** What names an element, or the slots of a frontend. */
export function elementId(
  { type, set, key }: Pick<Element | Slots, "type" | "set" | "key">,
): string {
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
  // Slots are compared one by one where they are written; sets have no content but their clients.
  return a.type === "set" && b.type === "set";
}

/** The data of a slot: `address . port`. */
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

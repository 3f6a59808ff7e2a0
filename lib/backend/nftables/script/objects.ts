/**
 * What signpost's table is made of, as data. Nothing here knows how nft spells a command.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { Destination } from "../../../model/kernel/desired.ts";

/** Name of the one table, in family `inet`. */
export const TABLE = "inet signpost";

/** An element of one of the table's sets or maps. */
export interface Element {
  readonly type: "element";
  /** Name of the set or map. */
  readonly set: string;
  readonly key: string;
  /** What the key maps to; `""` in a set. */
  readonly data: string;
  /** Who it is for; `""`: no Service in particular. Names only, see `readName` in the decoders. */
  readonly comment: string;
}

/** The slots of one frontend in an endpoint map: `key . 0`, `key . 1` and so on. */
export interface Slots {
  readonly type: "slots";
  readonly set: string;
  readonly key: string;
  readonly destinations: readonly Destination[];
}

/** A chain. Its name tells its rules: two chains of one name are the same. */
export interface Chain {
  readonly type: "chain";
  readonly name: string;
  /** Where the kernel calls it, such as `nat hook output priority -100`; none: only rules jump to it. */
  readonly hook?: string;
  readonly rules: readonly string[];
}

/** A set or map that is there while something uses it. */
export interface NamedSet {
  readonly type: "set";
  readonly kind: "set" | "map";
  readonly name: string;
  /** What stands between the braces of its declaration. */
  readonly body: string;
}

/** A part of the table that comes and goes with the services. */
export type TableObject = Element | Slots | Chain | NamedSet;

/** What names an object in the table. */
export function objectId(object: TableObject): string {
  switch (object.type) {
    case "element":
    case "slots":
      return `${object.type} ${object.set} ${object.key}`;
    case "chain":
    case "set":
      return `${object.type} ${object.name}`;
  }
}

/** Whether two objects of the same id hold the same. */
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

/** What the words of nft call an address of a family: `ip` or `ip6`. */
export const NFT_FAMILY: Readonly<Record<Family, "ip" | "ip6">> = { 4: "ip", 6: "ip6" };

/** The data of a slot: `address . port`. */
export function slotData({ address, port }: Destination): string {
  return `${address} . ${port}`;
}

/** The key of a slot: the frontend's, and the number of the slot. */
export function slotKey(key: string, slot: number): string {
  return `${key} . ${slot}`;
}

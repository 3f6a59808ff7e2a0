/**
 * What encoders have in common: the other way round from `read.ts`.
 *
 * @module
 */
import type { Protocol } from "../../model/cluster/objects.ts";

/** An API object as JSON. Fields that are `undefined` are left out of its text. */
export type Encoded = Readonly<Record<string, unknown>>;

/** The API's spelling of each protocol. */
export const PROTOCOLS: Readonly<Record<Protocol, string>> = {
  tcp: "TCP",
  udp: "UDP",
  sctp: "SCTP",
};

/** Does not compile where a field of the object was not taken out of what is left of it. */
export function complete(_rest: Readonly<Record<string, never>>): void {}

/** The list; `undefined` for an empty one. */
export function listOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** RFC 3339; 0 stands for none. */
export function timeOf(time: number): string | undefined {
  return time === 0 ? undefined : new Date(time).toISOString();
}

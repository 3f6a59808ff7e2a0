/**
 * The common parts of encoders, the reverse of `read.ts`.
 *
 * @module
 */
import type { Protocol } from "../../model/cluster/objects.ts";

/** An API object as JSON. Fields that are `undefined` are omitted from its text. */
export type Encoded = Readonly<Record<string, unknown>>;

/** The API's spelling of each protocol. */
export const PROTOCOLS: Readonly<Record<Protocol, string>> = {
  tcp: "TCP",
  udp: "UDP",
  sctp: "SCTP",
};

/** Fails to compile if a field of the object was not written. */
export function complete(_rest: Readonly<Record<string, never>>): void {}

/** Returns the list, or `undefined` if it is empty. */
export function listOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** Returns RFC 3339, or `undefined` for 0. */
export function timeOf(time: number): string | undefined {
  return time === 0 ? undefined : new Date(time).toISOString();
}

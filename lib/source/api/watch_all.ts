/**
 * The watches of all kinds, side by side.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";
import { Reflector, type ReflectorOptions } from "./reflector.ts";

/** What to watch and with what. */
export interface WatchAllOptions extends ReflectorOptions {
  readonly kinds: readonly Kind[];
}

/**
 * Lists and watches every kind until the signal aborts.
 *
 * Each kind's first event is a `replace`; a kind that the cluster does not have delivers an empty
 * one. Failures are retried for ever, so this never rejects.
 */
export async function watchAll(options: WatchAllOptions): Promise<void> {
  await Promise.all(options.kinds.map((kind) => new Reflector(kind, options).run()));
}

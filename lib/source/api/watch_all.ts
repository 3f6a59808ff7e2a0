/**
 * Watches all kinds in parallel.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";
import { Reflector, type ReflectorOptions } from "./reflector.ts";

/** The kinds, and the options of each watch. */
export interface WatchAllOptions extends ReflectorOptions {
  readonly kinds: readonly Kind[];
}

/**
 * Lists and watches every kind until the signal aborts. Never rejects, because failures are
 * retried.
 *
 * Each kind's first event is a `replace`. It is empty if the cluster lacks the kind.
 */
export async function watchAll(options: WatchAllOptions): Promise<void> {
  await Promise.all(options.kinds.map((kind) => new Reflector(kind, options).run()));
}

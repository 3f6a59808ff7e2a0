/**
 * What the sources need of the cache: its pure decoders, passed in as one function.
 *
 * @module
 */
import type { Decoded, ObjectEvent } from "../model/events.ts";
import type { Kind } from "../model/objects.ts";

/** Turns one raw object of a kind (parsed JSON or YAML, untrusted) into what the cache keeps of it. */
export type Decoder = <K extends Kind>(kind: K, raw: unknown) => Decoded<K>;

/** Takes the events of a source, in their order. It must not throw. */
export type EventSink = (event: ObjectEvent) => void;

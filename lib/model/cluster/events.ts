/**
 * What a source of objects (API watches, manifests, snapshot file) tells the cache, and the decoder
 * that it is given for that.
 *
 * @module
 */
import type { Kind, KindMap } from "./objects.ts";

/** An object that could not be used, and why. Its last good state stays. */
export interface Refusal {
  readonly kind: Kind;
  /** `namespace/name`. */
  readonly key: string;
  /** One line: the path in the object, what is wrong with it, the value. */
  readonly reason: string;
}

/** What is left out of an object because it cannot be used. The rest of the object counts. */
export interface Omission {
  readonly kind: Kind;
  /** `namespace/name`. */
  readonly key: string;
  /** One line: for each entry the path in the object, what is wrong with it, the value. */
  readonly reason: string;
}

/** What decoding one raw object gives. `ignored`: a valid object that makes no rules (headless, ExternalName, FQDN slice). */
export type Decoded<K extends Kind> =
  | { readonly type: "object"; readonly key: string; readonly object: KindMap[K] }
  | { readonly type: "ignored"; readonly key: string }
  | { readonly type: "refused"; readonly key: string; readonly reason: string };

/**
 * One change of what a source knows.
 *
 * - `replace`: the complete state of a kind, after a list. What it does not name is gone, but
 *   for refused objects, which keep their last good state.
 * - `upsert`, `delete`: one object.
 * - `refuse`: one object that came in a state that cannot be used.
 */
export type ObjectEvent = {
  [K in Kind]:
    | {
      readonly type: "replace";
      readonly kind: K;
      readonly objects: ReadonlyMap<string, KindMap[K]>;
      readonly refused: ReadonlyMap<string, string>;
    }
    | {
      readonly type: "upsert";
      readonly kind: K;
      readonly key: string;
      readonly object: KindMap[K];
    }
    | { readonly type: "delete"; readonly kind: K; readonly key: string }
    | {
      readonly type: "refuse";
      readonly kind: K;
      readonly key: string;
      readonly reason: string;
    };
}[Kind];

/** The complete state of one kind. */
export type ReplaceEvent = Extract<ObjectEvent, { readonly type: "replace" }>;

/** Turns one raw object of a kind (parsed JSON or YAML, untrusted) into what the cache keeps of it. Never throws. */
export type Decoder = <K extends Kind>(kind: K, raw: unknown) => Decoded<K>;

/** Takes the events of a source, in their order. It must not throw. */
export type EventSink = (event: ObjectEvent) => void;

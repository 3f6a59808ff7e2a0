/**
 * The events that a source of objects (API watches, manifests, state file) sends, and its decoder.
 *
 * @module
 */
import type { Kind, KindMap } from "./objects.ts";

/** An object that signpost cannot use, and the reason. Its last good state stays. */
export interface Refusal {
  readonly kind: Kind;
  /** `namespace/name`. */
  readonly key: string;
  /** One line: the path in the object, what is wrong with it, the value. */
  readonly reason: string;
}

/** The parts of an object that signpost cannot use. The rest of the object counts. */
export interface Omission {
  readonly kind: Kind;
  /** `namespace/name`. */
  readonly key: string;
  /** One line: for each entry the path in the object, what is wrong with it, the value. */
  readonly reason: string;
}

/**
 * The result of decoding one raw object. `ignored`: a valid object without rules (headless,
 * ExternalName, FQDN slice).
 */
export type Decoded<K extends Kind> =
  | { readonly type: "object"; readonly key: string; readonly object: KindMap[K] }
  | { readonly type: "ignored"; readonly key: string }
  | { readonly type: "refused"; readonly key: string; readonly reason: string };

/**
 * One change that a source saw.
 *
 * - `replace`: the complete state of a kind, after a list. Every object that it does not name is
 *   gone. A refused object keeps its last good state.
 * - `upsert`, `delete`: one object.
 * - `refuse`: one object that signpost cannot use.
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

/** Turns one raw object (parsed JSON or YAML, untrusted) into a cached object. Never throws. */
export type Decoder = <K extends Kind>(kind: K, raw: unknown) => Decoded<K>;

/** Takes the events of a source in their order. Must not throw. */
export type EventSink = (event: ObjectEvent) => void;

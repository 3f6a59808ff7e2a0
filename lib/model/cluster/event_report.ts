/**
 * The data of one Event about an object (API group events.k8s.io/v1).
 *
 * @module
 */

/** One Event, before it is sent. */
export interface EventReport {
  readonly regarding: {
    readonly kind: "Service" | "Node";
    /** `undefined` for a Node. */
    readonly namespace?: string;
    readonly name: string;
    /** `""` if unknown. */
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  /** The reason: one CamelCase word, for example `FailedToStartServiceHealthcheck`. */
  readonly reason: string;
  /** The action: one CamelCase word, for example `Listen`. */
  readonly action: string;
  /** A sentence for people; at most 1,024 bytes are kept. */
  readonly note: string;
}

/**
 * What is to be said of an object in an Event of the API group events.k8s.io/v1.
 *
 * @module
 */

/** What happened to which object. */
export interface EventReport {
  readonly regarding: {
    readonly kind: "Service" | "Node";
    /** `undefined` for a Node. */
    readonly namespace?: string;
    readonly name: string;
    /** `""`: not known. */
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  /** Why, one word in capitals and small letters, for example `FailedToStartServiceHealthcheck`. */
  readonly reason: string;
  /** What was done, one such word, for example `Listen`. */
  readonly action: string;
  /** A sentence for people; at most 1,024 bytes are kept. */
  readonly note: string;
}

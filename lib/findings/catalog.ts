/**
 * Every kind of node finding. `docs/` lists this table.
 *
 * @module
 */

/** `error`: packets die or rules cannot be written. `warning`: some will. `info`: worth knowing. */
export type Severity = "error" | "warning" | "info";

/** One kind of finding, as the docs list it. */
export interface FindingKind {
  readonly severity: Severity;
  /** Says what is wrong, as one sentence. */
  readonly summary: string;
  /** Says what to do, with the line to type if there is one. */
  readonly remedy: string;
}

/** The kinds by their id. An id is stable: metrics and alert rules name it. */
export const CATALOG = {
  "node-address-unknown": {
    severity: "warning",
    summary: "No address of this node is known, so node ports answer on all its addresses.",
    remedy:
      "Check that a Node of this name exists (--hostname-override), or set nodePortAddresses (--nodeport-addresses).",
  },
} as const satisfies Record<string, FindingKind>;

/** The id of a kind of finding. */
export type FindingId = keyof typeof CATALOG;

/**
 * The shape of a node finding: what the log, `check`, `status`, the page, `explain` and the metrics show.
 *
 * @module
 */

/** `error`: packets die or rules cannot be written. `warning`: some will. `info`: worth knowing. */
export type Severity = "error" | "warning" | "info";

/** Something that is wrong on this node now. */
export interface Finding {
  /** The kind, a row of the catalog. */
  readonly id: string;
  readonly severity: Severity;
  /** Says what is wrong, with the values that show it. */
  readonly what: string;
  /** Names the chain, table, address, setting or object. */
  readonly where: string;
  /** Says what to do, with the line to type if there is one. */
  readonly remedy: string;
  /** The Services that it concerns, as `namespace/name`; empty if it concerns the whole node. */
  readonly services: readonly string[];
}

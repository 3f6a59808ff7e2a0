/**
 * The shape of a node finding, in the log, `check`, `status`, the page, `explain` and the metrics.
 *
 * @module
 */

/** `error`: packets are lost, or rules cannot be written. `warning`: some may be. `info`: worth knowing. */
export type Severity = "error" | "warning" | "info";

/** A fault on this node now. */
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
  /** The affected Services, as `namespace/name`; empty if the whole node is affected. */
  readonly services: readonly string[];
}

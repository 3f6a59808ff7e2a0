/**
 * Node findings: what is wrong on this node, where it is, and what the administrator can do.
 *
 * A check is a pure function from facts to findings. Each kind of finding is declared once, in
 * `catalog.ts`. The log, `check`, `status`, the page, `explain` and the metrics show the same list.
 *
 * @module
 */
import { CATALOG, type FindingId, type Severity } from "./catalog.ts";

/** Something that is wrong on this node now. */
export interface Finding {
  readonly id: FindingId;
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

/** The parts of a finding that its kind does not give. */
export interface FindingDetails {
  readonly what: string;
  readonly where: string;
  /** @default the remedy of the kind */
  readonly remedy?: string;
  /** @default [] */
  readonly services?: readonly string[];
}

/** Makes a finding of a declared kind. */
export function finding(id: FindingId, details: FindingDetails): Finding {
  const { severity, remedy } = CATALOG[id];
  return { id, severity, remedy, services: [], ...details };
}

/**
 * Node findings: what is wrong on this node, where it is, and what the administrator can do.
 *
 * A check is a pure function from facts to findings. Each kind of finding is declared once, in
 * `catalog.ts`. The log, `check`, `status`, the page, `explain` and the metrics show the same list.
 *
 * @module
 */
import type { Finding } from "../model/status.ts";
import { CATALOG, type FindingId } from "./catalog.ts";

export type { Finding };

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
export function finding(
  id: FindingId,
  { what, where, remedy = CATALOG[id].remedy, services = [] }: FindingDetails,
): Finding {
  return { id, severity: CATALOG[id].severity, what, where, remedy, services };
}

/**
 * Checks that the API server can be reached safely, and that it lets signpost read what it needs.
 *
 * @module
 */
import type { ApiFailure, NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Finds what keeps signpost from the objects: one finding for the way there, or one for each refused kind. */
export function checkApiServer({ apiServer }: NodeFacts): Finding[] {
  if (!apiServer) return [];
  const { where, warnings, failures } = apiServer;
  const refused = failures.filter(({ isRefusal }) => isRefusal);
  const [unreachable] = failures.filter(({ isRefusal }) => !isRefusal);
  return [
    ...warnings.map((what) => finding("api-access-unsafe", { what, where })),
    ...unreachable ? [finding("api-server-unreachable", { what: unreachable.message, where })] : [],
    ...refused.map(({ kind, message }: ApiFailure) =>
      finding("api-server-refuses", { what: message, where: kind })
    ),
  ];
}

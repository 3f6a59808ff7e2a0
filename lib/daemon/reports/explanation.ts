/** Answers `signpost explain` from the objects of the daemon. The command reads the kernel itself. */
import { checkExplain, readExplainTarget } from "../../config/command.ts";
import { type Answer, answer, factsOf } from "../../explain/answer.ts";
import { EXPLAIN_VERSION } from "../../explain/report.ts";
import { SENDERS } from "../../explain/service_report.ts";
import { objectKey } from "../../model/cluster/names.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import { isCurrent } from "../../model/status.ts";
import { messageIfFatal } from "../../model/values/errors.ts";
import { readInspected, readPods } from "../objects/inspected.ts";
import type { Parts } from "../parts.ts";
import { asOf, serviceStatus } from "./status_report.ts";

/** The reason why a question cannot be answered. */
export interface Unanswered {
  readonly explainVersion: typeof EXPLAIN_VERSION;
  readonly problem: string;
}

/** Answers `question`, with `namespace` and `from` as on the command line; `undefined` before the first lists. */
export async function explanation(
  parts: Parts,
  query: URLSearchParams,
): Promise<Answer | Unanswered | undefined> {
  const { cache, desired, connections, options, opened: { source, backend } } = parts;
  if (!cache.consistent) return undefined;
  const unanswered = (problem: string): Unanswered => ({
    explainVersion: EXPLAIN_VERSION,
    problem,
  });
  const namespace = query.get("namespace") ?? "";
  const from = SENDERS.find((each) => each === query.get("from"));
  const target = readExplainTarget([query.get("question") ?? ""], { namespace, from: from ?? "" });
  if (typeof target === "string") return unanswered(target);
  const fault = checkExplain(target, { from: from ?? "", trace: false });
  if (fault !== undefined) return unanswered(fault);
  const origin = { from: "daemon", asOf: new Date(asOf(parts)).toISOString() } as const;
  const { api } = source;
  // A server that does not answer the watches would only delay this answer.
  const isAway = api !== undefined && !isCurrent(origin, options.runtime.clock.now());
  const known = factsOf({
    ...options,
    state: { cache, desired, conflicts: desired.conflicts(), refused: parts.refusals() },
    backend,
    origin,
    nodeFindings: parts.findings.list,
  });
  const reading = { ...options, client: api?.client };
  return await answer(target, {
    known,
    from,
    inspect: async (service) => isAway ? undefined : await readInspected(service, reading),
    locate: async (pod) => isAway ? undefined : await readPods(pod, reading),
    historyOf: (service) => parts.history.changes(service),
    statusOf: async (service) => {
      const isRejected = ({ reason, ...name }: ServiceConnections) =>
        reason !== undefined &&
        objectKey({ namespace: name.namespace, name: name.service }) === service;
      const counted = [...await connections.list()];
      return { ...serviceStatus(parts, service), rejected: counted.filter(isRejected) };
    },
  }).catch((error) => unanswered(messageIfFatal(error)));
}

/**
 * Events about the Node, as kube-proxy sends them.
 *
 * @module
 */
import type { EventReport } from "../../observe/event_body.ts";
import { VERSION } from "../../model/version.ts";

/** What all of them have in common. */
function nodeEvent(
  nodeName: string,
  said: Pick<EventReport, "type" | "reason" | "note">,
): EventReport {
  // kubelet and kube-proxy put the name where the UID belongs, and `kubectl describe node` looks for it.
  const regarding = { kind: "Node", name: nodeName, uid: nodeName } as const;
  return { regarding, action: "StartKubeProxy", ...said };
}

/** Once for each start, when the first full state is in the kernel. */
export function startingEvent(nodeName: string, mode: string): EventReport {
  return nodeEvent(nodeName, {
    type: "Normal",
    reason: "Starting",
    note: `signpost ${VERSION} in ${mode} mode`,
  });
}

/** By server, kube-proxy's word for that it cannot listen. */
const REASONS = {
  healthz: "FailedToStartProxierHealthcheck",
  metrics: "FailedToStartMetricServer",
} as const;

/** A server that cannot listen. */
export function serverFailedEvent(
  nodeName: string,
  { server, error }: { readonly server: keyof typeof REASONS; readonly error: string },
): EventReport {
  return nodeEvent(nodeName, { type: "Warning", reason: REASONS[server], note: error });
}

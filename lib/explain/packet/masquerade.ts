/**
 * Tells if a connection gets this node's address as its source, and why.
 *
 * @module
 */
import type { Sender } from "../../config/command.ts";
import { type LocalDetector, usedEndpoints } from "../../model/kernel/desired.ts";
import type { Match } from "../../policy/frontend.ts";

/** True if the source address is replaced by this node's. */
export interface Masquerade {
  readonly applies: boolean;
  readonly code:
    | "masquerade-all"
    | "not-a-local-pod"
    | "external-cluster-policy"
    | "node-to-external"
    | "hairpin"
    | "none";
  /** One sentence. */
  readonly reason: string;
}

/** What the decision depends on. */
export interface MasqueradeOptions {
  readonly match: Match;
  readonly masqueradeAll: boolean;
  readonly localDetector: LocalDetector | undefined;
  /** True if the rules take the sender for a pod of this node. */
  readonly isLocalPod: boolean;
}

/** Decides for the packets of a sender that are delivered. */
export function masqueradeOf(
  { sender, source }: { readonly sender: Sender; readonly source: string | undefined },
  { match, masqueradeAll, localDetector, isLocalPod }: MasqueradeOptions,
): Masquerade {
  const { servicePort, frontend } = match;
  if (frontend.type !== "clusterIP") {
    if (servicePort.externalTrafficPolicy === "Cluster") {
      return yes(
        "external-cluster-policy",
        "external traffic policy Cluster: the answer must come back through this node",
      );
    }
    if (sender === "node") {
      return yes("node-to-external", "this node's own traffic to an external address");
    }
  } else if (masqueradeAll) {
    return yes("masquerade-all", "masqueradeAll is set");
  } else if (localDetector && !isLocalPod) {
    return yes(
      "not-a-local-pod",
      `the source is no pod of this node (${describeDetector(localDetector)})`,
    );
  }
  const own = usedEndpoints(servicePort).find(({ address, hairpin }) =>
    hairpin && address === source
  );
  if (own) {
    return {
      applies: false,
      code: "hairpin",
      reason: `only where the sender is sent back to itself (${own.address}, hairpin)`,
    };
  }
  return { applies: false, code: "none", reason: keptBecause(match, localDetector) };
}

/** How pods of this node are recognised, in a few words. */
function describeDetector(detector: LocalDetector | undefined): string {
  switch (detector?.type) {
    case "cidr":
      return `pods are in ${detector.cidr}`;
    case "interface":
      return `pods come through ${detector.name}`;
    case "interfacePrefix":
      return `pods come through ${detector.prefix}*`;
    case undefined:
      return "nothing says which pods are of this node: set clusterCIDR";
  }
}

function keptBecause({ frontend }: Match, detector: LocalDetector | undefined): string {
  if (frontend.type !== "clusterIP") {
    return "external traffic policy Local keeps the client's address";
  }
  return detector
    ? `the source is a pod of this node (${describeDetector(detector)})`
    : "nothing asks for it: neither masqueradeAll nor clusterCIDR is set";
}

function yes(code: Masquerade["code"], reason: string): Masquerade {
  return { applies: true, code, reason };
}

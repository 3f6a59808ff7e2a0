/**
 * Checks that pods are detected, and that the pods of this node are in the range by which they are.
 * Traffic of a pod outside is masqueraded, and dropped if a load balancer's policy is Local (k/k#112820).
 *
 * @module
 */
import { cidrTest, FAMILIES, type Family } from "../model/values/address.ts";
import { eachPort, type NodeFacts, type ObjectFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Checks that pods are detected at all. */
export function checkPodDetection(
  { configuration, traits, objects, nodeName }: NodeFacts,
): Finding[] {
  if (configuration[traits.section].masqueradeAll) return [];
  const { detectLocalMode, clusterCIDRs } = configuration;
  if (detectLocalMode === "ClusterCIDR" && clusterCIDRs.length === 0) {
    const what = "clusterCIDR is not set, and detectLocalMode is ClusterCIDR: no pod is detected";
    return [finding("pods-not-detected", { what, where: "clusterCIDR" })];
  }
  if (detectLocalMode === "NodeCIDR" && objects?.node?.podCIDRs.length === 0) {
    const where = `Node ${nodeName}`;
    const what = `${where} has no podCIDRs, and detectLocalMode is NodeCIDR: no pod is detected`;
    return [finding("pods-not-detected", { what, where })];
  }
  return [];
}

/** Finds, for each IP family, the first pod outside the range. */
export function* checkPodRange(
  { objects, interfaceAddresses }: NodeFacts,
): Generator<undefined, Finding[]> {
  if (!objects) return [];
  // Pods on the host's network have the node's addresses.
  const own = new Set(interfaceAddresses);
  const ranges = FAMILIES.flatMap((family) => rangeOf(family, objects));
  const found = new Map<Family, Finding>();
  yield* eachPort(objects.desired, ({ name, family, clusterEndpoints }) => {
    const range = found.has(family) ? undefined : ranges.find((each) => each.family === family);
    if (!range) return false;
    const stray = clusterEndpoints.find(({ address, local }) =>
      local && !range.contains(address) && !own.has(address)
    );
    if (!stray) return false;
    const what = `the pod ${stray.address} of this node (${name}) is outside ${range.cidr}`;
    found.set(family, finding("pod-outside-detected-range", { what, where: range.cidr }));
    return found.size === ranges.length;
  });
  return [...found.values()];
}

interface Range {
  readonly family: Family;
  readonly cidr: string;
  readonly contains: (address: string) => boolean;
}

/** Pods that are detected by an interface have no range. */
function rangeOf(family: Family, { desired }: ObjectFacts): Range[] {
  const { localDetector } = desired.node.families[family];
  if (localDetector?.type !== "cidr") return [];
  const { cidr } = localDetector;
  return [{ family, cidr, contains: cidrTest(cidr) }];
}

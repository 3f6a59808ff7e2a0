/**
 * How much a script has to say of a Service, without making it.
 *
 * @module
 */
import { slotsFor } from "../../../model/cluster/scheduler.ts";
import type { DesiredServicePort, StateChange } from "../../../model/kernel/desired.ts";

/** A client set and a chain of session affinity, in elements: nft takes as much memory for them. */
const AFFINITY_WEIGHT = 10;

/** Elements of these ports, roughly: each frontend with each of its endpoints, and source ranges. */
export function weightOf(ports: readonly DesiredServicePort[]): number {
  let weight = 0;
  for (const port of ports) {
    const { clusterIPs, loadBalancerIPs, externalIPs, nodePort, sourceRanges } = port;
    const frontends = clusterIPs.length + loadBalancerIPs.length + externalIPs.length +
      (nodePort === 0 ? 0 : 1);
    const endpoints = slotsFor(port.clusterEndpoints.length, port.scheduler) +
      slotsFor(port.localEndpoints.length, port.scheduler);
    const each = port.affinitySeconds > 0 ? AFFINITY_WEIGHT : frontends;
    weight += frontends + clusterIPs.length + each * endpoints +
      loadBalancerIPs.length * sourceRanges.length;
  }
  return weight;
}

/**
 * A change of more elements than this, by `weightOf`, is written as a full script: that is made in
 * pieces, and other work is done between them. Two seconds of a processor.
 */
const LARGE_CHANGE = 250_000;

/** Returns true if a change is so large that everything is written. */
export function isLargeChange({ services }: StateChange): boolean {
  let weight = 0;
  for (const { before, after } of services.values()) {
    if (before === after) continue;
    weight += weightOf(before) + weightOf(after);
    if (weight > LARGE_CHANGE) return true;
  }
  return false;
}

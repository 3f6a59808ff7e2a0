/**
 * Counts service ports with a Local policy but no endpoint on this node.
 *
 * @module
 */
import type { Family } from "../model/values/address.ts";
import type { DesiredServicePort, ServiceChange } from "../model/kernel/desired.ts";

/** The number of service ports, by the policy that is Local. */
export interface NoLocal {
  internal: number;
  external: number;
}

/** Returns counts of zero. */
export function noLocalCounts(): NoLocal {
  return { internal: 0, external: 0 };
}

/** Counts service ports with a Local policy, endpoints somewhere, and none here. */
export function followNoLocal(
  counts: Readonly<Record<Family, NoLocal>>,
  { before, after }: ServiceChange,
): void {
  if (before === after) return;
  count(counts, before, -1);
  count(counts, after, 1);
}

function count(
  counts: Readonly<Record<Family, NoLocal>>,
  ports: readonly DesiredServicePort[],
  step: 1 | -1,
): void {
  for (const port of ports) {
    if (!port.hasEndpoints || port.localEndpoints.length > 0) continue;
    const external = port.nodePort !== 0 || port.loadBalancerIPs.length > 0 ||
      port.externalIPs.length > 0;
    if (port.internalTrafficPolicy === "Local") counts[port.family].internal += step;
    if (port.externalTrafficPolicy === "Local" && external) counts[port.family].external += step;
  }
}

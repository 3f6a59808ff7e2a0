/**
 * Removes the parts of service ports that need a refused feature.
 *
 * @module
 */
import { needsOf } from "../model/cluster/scheduler.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import type { RefusedFeatures, ServiceFeature, Unsupported } from "../model/kernel/traits.ts";

/** The remaining ports, and the features that were missing. */
export interface Reduced {
  readonly ports: readonly DesiredServicePort[];
  /** The refused features that the Service needs. */
  readonly unsupported: readonly Unsupported[];
}

/** Returns the features that a service port needs. */
function featuresOf(port: DesiredServicePort): ServiceFeature[] {
  return [
    ...port.sourceRanges.length > 0 && port.loadBalancerIPs.length > 0
      ? ["source-ranges" as const]
      : [],
    ...port.affinitySeconds > 0 ? ["session-affinity" as const] : [],
    ...needsOf(port.scheduler).hash ? ["hash" as const] : [],
  ];
}

/**
 * Removes the parts that need a refused feature.
 *
 * A load-balancer IP without its source ranges would be open to all, so it gets no rules. A port
 * without its session affinity would mix up its clients, so it gets none either. Without a hash,
 * endpoints are picked at random.
 */
export function withoutRefused(
  ports: readonly DesiredServicePort[],
  { service, refused }: { readonly service: string; readonly refused: RefusedFeatures },
): Reduced {
  if (refused.size === 0) return { ports, unsupported: [] };
  const needed = new Set<ServiceFeature>();
  const left = ports.flatMap((port) => {
    const missing = featuresOf(port).filter((feature) => refused.has(feature));
    for (const feature of missing) needed.add(feature);
    if (missing.includes("session-affinity")) return [];
    const { scheduler: _, ...random } = port;
    const held = missing.includes("hash") ? random : port;
    return missing.includes("source-ranges")
      ? [{ ...held, loadBalancerIPs: [], sourceRanges: [] }]
      : [held];
  });
  const unsupported = [...needed].map((feature) => ({
    service,
    feature,
    refusal: refused.get(feature) ?? "",
  }));
  return { ports: left, unsupported };
}

/**
 * What rules can do without: where it is refused, all else works.
 *
 * @module
 */

/** Features that the kernel may refuse. */
export const FEATURES = [
  "source-ranges",
  "session-affinity",
  "hash",
  "connection-counters",
] as const;

/** Something that the kernel may refuse. */
export type Feature = typeof FEATURES[number];

/** Something that not every Service needs. */
export type ServiceFeature = Exclude<Feature, "connection-counters">;

/** The features that nft or the kernel refuses, and how: who refuses what, in one line. */
export type RefusedFeatures = ReadonlyMap<Feature, string>;

/** A Service that needs what is refused. */
export interface Unsupported {
  /** `namespace/name`. */
  readonly service: string;
  readonly feature: ServiceFeature;
  /** Who refuses what, in one line. */
  readonly refusal: string;
}

/** What is left out of a Service for want of a feature. */
const LEFT_OUT: Readonly<Record<ServiceFeature, string>> = {
  "source-ranges":
    "its load-balancer IPs get no rules, since its source ranges (loadBalancerSourceRanges) cannot be held",
  "session-affinity":
    "its ports get no rules, since its session affinity (sessionAffinity: ClientIP) cannot be held",
  hash: "its endpoints are picked at random, since they cannot be picked by a hash",
};

/** Whether the Service works all the same, though not as it asks. */
export function worksWithout(feature: ServiceFeature): boolean {
  return feature === "hash";
}

/** The refusal of a Service in one sentence. */
export function describeUnsupported({ feature, refusal }: Unsupported): string {
  return `${LEFT_OUT[feature]}: ${refusal}`;
}

/** The same for the log, with the name of the Service. */
export function unsupportedLine(unsupported: Unsupported): string {
  const { service, feature } = unsupported;
  const verdict = worksWithout(feature) ? "does not get all that it asks for" : "is refused";
  return `Service ${service} ${verdict}: ${describeUnsupported(unsupported)}`;
}

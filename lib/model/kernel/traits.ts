/** Declares the properties of a mode, and the features that nft or the kernel may refuse. */
import type { Mode } from "../configuration.ts";

export interface ModeTraits {
  readonly name: Mode;
  /** True if node ports answer on the Node's primary addresses only, without `nodePortAddresses`. */
  readonly primaryNodePorts: boolean;
  /** The server of node ports on loopback: rules for 127.0.0.1, or user-space listeners for ::1 too. */
  readonly localhostNodePorts: "rules" | "listeners";
  /** True if packets to unused cluster IPs are rejected or dropped. */
  readonly guardsClusterIPs: boolean;
  readonly refuses: RefusedFeatures;
  /** The cost, in elements, of one partial sync while other Services wait; absent if unbounded. */
  readonly share?: number;
  readonly parts: string;
}

export const FEATURES = [
  "source-ranges",
  "session-affinity",
  "hash",
  "connection-counters",
  "acceleration",
] as const;

export type Feature = typeof FEATURES[number];

export type ServiceFeature = Exclude<Feature, "connection-counters" | "acceleration">;

/** The refused features, each with one line that names the program or kernel and its refusal. */
export type RefusedFeatures = ReadonlyMap<Feature, string>;

export interface Unsupported {
  readonly service: string;
  readonly feature: ServiceFeature;
  /** One line that names the program or kernel and its refusal. */
  readonly refusal: string;
}

/** The effect of each missing feature on a Service. */
const LEFT_OUT: Readonly<Record<ServiceFeature, string>> = {
  "source-ranges":
    "its load-balancer IPs get no rules, since its source ranges (loadBalancerSourceRanges) cannot be held",
  "session-affinity":
    "its ports get no rules, since its session affinity (sessionAffinity: ClientIP) cannot be held",
  hash: "its endpoints are picked at random, since they cannot be picked by a hash",
};

export function worksWithout(feature: ServiceFeature): boolean {
  return feature === "hash";
}

export function describeUnsupported({ feature, refusal }: Unsupported): string {
  return `${LEFT_OUT[feature]}: ${refusal}`;
}

export function unsupportedLine(unsupported: Unsupported): string {
  const { service, feature } = unsupported;
  const verdict = worksWithout(feature) ? "is served in part" : "is refused";
  return `Service ${service} ${verdict}: ${describeUnsupported(unsupported)}`;
}

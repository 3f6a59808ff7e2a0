/**
 * What signpost keeps of the API's objects: the fields that rules need, already validated.
 *
 * Addresses and CIDRs are canonical (see `address.ts`), names are checked, strings that recur
 * (node names, zones) are shared. Values are never changed in place.
 *
 * @module
 */
import type { Family } from "../values/address.ts";
import type { AskedScheduler } from "./scheduler.ts";

/** Transport protocols that a Service may use, in the spelling of nft and iptables. */
export const PROTOCOLS = ["tcp", "udp", "sctp"] as const;

/** A transport protocol that a Service may use. */
export type Protocol = typeof PROTOCOLS[number];

/** `Cluster` or `Local`: which endpoints take traffic (Service v1, `internalTrafficPolicy` and `externalTrafficPolicy`). */
export type TrafficPolicy = "Cluster" | "Local";

/** What could not be used of an object. */
export interface Omitting {
  /** Entries of lists, and hints, that were left out: the rest counts. One line for each; absent: none. */
  readonly omitted?: readonly string[];
}

/** One entry of a Service's `spec.ports`. */
export interface ServicePort {
  /** The port's name, `""` where the Service has but one port without a name. */
  readonly name: string;
  readonly protocol: Protocol;
  /** 1 to 65535. */
  readonly port: number;
  /** 0: none. */
  readonly nodePort: number;
}

/** A Service that has a virtual IP: of type ClusterIP, NodePort or LoadBalancer, and not headless. */
export interface Service extends Omitting {
  readonly namespace: string;
  readonly name: string;
  /** For Events about this object; `""` where a manifest does not say. */
  readonly uid: string;
  /** `metadata.creationTimestamp`, milliseconds since the epoch; 0 where a manifest does not say. */
  readonly created: number;
  /** At most one of each family. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** `status.loadBalancer.ingress[].ip` but those of `ipMode: Proxy`. */
  readonly loadBalancerIPs: readonly string[];
  /** `spec.loadBalancerSourceRanges`; empty: every source may connect. */
  readonly sourceRanges: readonly string[];
  readonly ports: readonly ServicePort[];
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** Seconds that a client stays on its endpoint; 0: `sessionAffinity` is None. */
  readonly affinitySeconds: number;
  /** 0: none. */
  readonly healthCheckNodePort: number;
  /** Annotations `signpost.dev/scheduler` and `signpost.dev/hash`; absent: it has none. */
  readonly scheduler?: AskedScheduler;
}

/** One entry of an EndpointSlice's `ports` that names a number. */
export interface EndpointPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** One entry of an EndpointSlice's `endpoints`, by its first address. */
export interface Endpoint {
  readonly address: string;
  /** `undefined` where the slice does not say. */
  readonly nodeName: string | undefined;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** `hints.forZones`; empty: no hint. */
  readonly zoneHints: readonly string[];
  /** `hints.forNodes`; empty: no hint. */
  readonly nodeHints: readonly string[];
}

/** An EndpointSlice of IPv4 or IPv6 addresses (discovery.k8s.io/v1). */
export interface EndpointSlice extends Omitting {
  readonly namespace: string;
  readonly name: string;
  /** The label `kubernetes.io/service-name`: a Service of the same namespace. */
  readonly serviceName: string;
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly Endpoint[];
  /** Annotation `endpoints.kubernetes.io/last-change-trigger-time`, milliseconds since the epoch; 0: none. */
  readonly lastChangeTriggerTime: number;
}

/** What signpost needs of its own Node. */
export interface Node extends Omitting {
  readonly name: string;
  readonly uid: string;
  /** `status.addresses` of type InternalIP, then ExternalIP, in the API's order. */
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  /** Label `topology.kubernetes.io/zone`, `""` where absent. */
  readonly zone: string;
  /** A deletionTimestamp is set, or the taint `ToBeDeletedByClusterAutoscaler`. */
  readonly deleting: boolean;
}

/** A ServiceCIDR (networking.k8s.io/v1): ranges from which cluster IPs are allocated. */
export interface ServiceCIDR extends Omitting {
  readonly name: string;
  readonly cidrs: readonly string[];
}

/** The kinds that signpost reads, with the type that it keeps of each. */
export interface KindMap {
  readonly Service: Service;
  readonly EndpointSlice: EndpointSlice;
  readonly Node: Node;
  readonly ServiceCIDR: ServiceCIDR;
}

/** Name of a kind that signpost reads. */
export type Kind = keyof KindMap;

/** All kinds, in the order in which they are listed. */
export const KINDS: readonly Kind[] = ["Service", "EndpointSlice", "Node", "ServiceCIDR"];

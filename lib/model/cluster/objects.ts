/**
 * Declares the fields of API objects that rules need. Addresses are canonical, names are checked, node names and zones
 * are shared strings. Values never change in place.
 */
import type { Family } from "../values/address.ts";
import type { AskedScheduler } from "./scheduler.ts";

/** Transport protocols that a Service may use, in the spelling of nft and iptables. */
export const PROTOCOLS = ["tcp", "udp", "sctp"] as const;

export type Protocol = typeof PROTOCOLS[number];

/** The endpoints that take traffic: all (`Cluster`), or this node's endpoints (`Local`). */
export type TrafficPolicy = "Cluster" | "Local";

/** The types of Services that have a virtual IP, the default first. */
export const SERVICE_TYPES = ["ClusterIP", "NodePort", "LoadBalancer"] as const;

type ServiceType = typeof SERVICE_TYPES[number];

/** An object with parts that signpost cannot use. */
interface Omitting {
  /** The list entries and hints that were left out, one line each. Absent without any. */
  readonly omitted?: readonly string[];
}

export interface ServicePort {
  /** The port's name; `""` if the Service's only port is without a name. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 without a node port. */
  readonly nodePort: number;
}

/** A Service that has a virtual IP: of type ClusterIP, NodePort or LoadBalancer, and not headless. */
export interface Service extends Omitting {
  readonly namespace: string;
  readonly name: string;
  /** The UID, for Events about this object; `""` if a manifest has none. */
  readonly uid: string;
  /** `metadata.creationTimestamp`, milliseconds since the epoch; 0 if a manifest has none. */
  readonly created: number;
  readonly type: ServiceType;
  /** True if the Service selects Pods, so that its EndpointSlices are made for it. */
  readonly hasSelector: boolean;
  /** At most one address of each family. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** `status.loadBalancer.ingress[].ip` without entries of `ipMode: Proxy`. */
  readonly loadBalancerIPs: readonly string[];
  /** Set if the status has entries, and all have `ipMode: Proxy`. */
  readonly isProxiedByBalancer?: true;
  /** `spec.loadBalancerSourceRanges`; if empty, every source may connect. */
  readonly sourceRanges: readonly string[];
  readonly ports: readonly ServicePort[];
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** Seconds that a client stays on its endpoint; 0 if `sessionAffinity` is None. */
  readonly affinitySeconds: number;
  /** 0 without health checks. */
  readonly healthCheckNodePort: number;
  /** Annotations `signpost.dev/scheduler` and `signpost.dev/hash`; absent if the Service has neither. */
  readonly scheduler?: AskedScheduler;
  /** Annotation `signpost.dev/acceleration`; absent if the Service has none. */
  readonly acceleration?: "on" | "off";
}

/** One entry of an EndpointSlice's `ports` that has a port number. */
export interface EndpointPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** One entry of an EndpointSlice's `endpoints`, with its first address. */
export interface Endpoint {
  readonly address: string;
  /** `undefined` if the slice does not name a node. */
  readonly nodeName: string | undefined;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** `hints.forZones`; empty without a hint. */
  readonly zoneHints: readonly string[];
  /** `hints.forNodes`; empty without a hint. */
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
  /** Annotation `endpoints.kubernetes.io/last-change-trigger-time`, milliseconds since the epoch, or 0. */
  readonly lastChangeTriggerTime: number;
}

export interface Node extends Omitting {
  readonly name: string;
  readonly uid: string;
  /** `status.addresses` of type InternalIP, then ExternalIP, in the API's order. */
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  /** Label `topology.kubernetes.io/zone`, `""` if absent. */
  readonly zone: string;
  /** True if a deletionTimestamp is set, or the taint `ToBeDeletedByClusterAutoscaler`. */
  readonly deleting: boolean;
}

export interface ServiceCIDR extends Omitting {
  readonly name: string;
  readonly cidrs: readonly string[];
}

export interface KindMap {
  readonly Service: Service;
  readonly EndpointSlice: EndpointSlice;
  readonly Node: Node;
  readonly ServiceCIDR: ServiceCIDR;
}

export type Kind = keyof KindMap;

/** All kinds, in the order in which they are listed. */
export const KINDS: readonly Kind[] = ["Service", "EndpointSlice", "Node", "ServiceCIDR"];

/** An object, or parts of it, that signpost cannot use. The last good state of a refused object stays. */
export interface Refusal {
  readonly kind: Kind;
  /** `namespace/name`. */
  readonly key: string;
  /** One line: the path in the object, what is wrong with it, the value. */
  readonly reason: string;
  /** True if the objects of its namespace or kind take too much memory. */
  readonly isExcess?: boolean;
}

/**
 * The change of one object, or the result of decoding it. `delete`: it is gone, or does not need rules (headless,
 * ExternalName, FQDN slice). `refuse`: it cannot be used.
 */
export type ObjectChange<K extends Kind = Kind> = {
  [k in K]:
    | {
      readonly type: "upsert";
      readonly kind: k;
      readonly key: string;
      readonly object: KindMap[k];
    }
    | { readonly type: "delete"; readonly kind: k; readonly key: string }
    | {
      readonly type: "refuse";
      readonly kind: k;
      readonly key: string;
      readonly reason: string;
      readonly isExcess?: boolean;
      /** True if the log already has the refusal of another object for this reason. */
      readonly isLogged?: boolean;
    };
}[K];

/** The complete state of a kind, by key. All other objects are gone, and a refused object keeps its last good state. */
export type ReplaceEvent = {
  [K in Kind]: {
    readonly type: "replace";
    readonly kind: K;
    readonly changes: ReadonlyMap<string, ObjectChange<K>>;
  };
}[Kind];

/** One change that a source saw. */
export type ObjectEvent = ObjectChange | ReplaceEvent;

/**
 * Turns one raw object (parsed JSON or YAML, untrusted) into a change. Never throws.
 *
 * @param excess returns the reason to refuse an object before it is built, by an estimate of its bytes; else `""`
 */
export type Decoder = <K extends Kind>(
  kind: K,
  raw: unknown,
  excess?: (key: string, size: number) => string,
) => ObjectChange<K>;

/** Takes the events of a source in their order. Must not throw. */
export type EventSink = (event: ObjectEvent) => void;

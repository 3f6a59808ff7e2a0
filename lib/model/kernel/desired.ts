/**
 * The desired state of this node, before it is written in the words of nft or iptables.
 *
 * @module
 */
import type { Family } from "../values/address.ts";
import type { Scheduler } from "../cluster/scheduler.ts";
import type { Protocol, TrafficPolicy } from "../cluster/objects.ts";

/** Where a connection may be sent. */
export interface Destination {
  readonly address: string;
  readonly port: number;
  /** On this node. An endpoint whose slice names no node is not, as in kube-proxy. */
  readonly local: boolean;
  /** Its own connections may come back to it through this node: those are masqueraded. */
  readonly hairpin: boolean;
}

/** How a packet addresses a Service. */
export type FrontendType = "clusterIP" | "externalIP" | "loadBalancerIP" | "nodePort";

/**
 * One port of one Service in one family, as this node treats it.
 *
 * Addresses and node ports are those that the Service holds: one that an older Service claimed
 * first is not here. The same value serves nftables and iptables.
 */
export interface DesiredServicePort {
  /** `namespace/name:port`. */
  readonly name: string;
  readonly family: Family;
  readonly protocol: Protocol;
  readonly port: number;
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** 0: none. */
  readonly nodePort: number;
  /** `spec.healthCheckNodePort`, which the node's own firewall must let in (iptables mode); none where absent or 0. */
  readonly healthCheckNodePort?: number;
  /** Sources that may reach the load-balancer IPs, merged; empty: all. */
  readonly sourceRanges: readonly string[];
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** 0: none. */
  readonly affinitySeconds: number;
  /** How new connections are spread; absent: at random, as with session affinity those of new clients. */
  readonly scheduler?: Scheduler;
  /** Used under the Cluster policy; the position is the slot in the kernel's map. */
  readonly clusterEndpoints: readonly Destination[];
  /** Used under the Local policy; empty where no policy is Local. */
  readonly localEndpoints: readonly Destination[];
  /**
   * UDP only: serving endpoints that no list above has (they terminate, or are of another zone or
   * node), where there are any. New flows do not go there; those of before stay, as kube-proxy
   * lets them (`pkg/proxy/conntrack`).
   */
  readonly otherServingEndpoints?: readonly Pick<Destination, "address" | "port">[];
  /** Some endpoint can take traffic somewhere in the cluster: then Local without a local one drops, it does not reject. */
  readonly hasEndpoints: boolean;
}

/** How to tell that a packet comes from a pod of this node (KubeProxyConfiguration `detectLocal`). */
export type LocalDetector =
  | { readonly type: "cidr"; readonly cidr: string }
  | { readonly type: "interface"; readonly name: string }
  | { readonly type: "interfacePrefix"; readonly prefix: string };

/** Which of the node's addresses take node ports (KubeProxyConfiguration `nodePortAddresses`), of one family. */
export type NodePortAddresses =
  | { readonly type: "all" }
  /** The node's local addresses inside these ranges; `primary` is a range of one address. None: no node ports. */
  | { readonly type: "cidrs"; readonly cidrs: readonly string[] };

/** What one family's rules need to know of the node. */
export interface DesiredFamily {
  /** `undefined`: nothing is known to be local. */
  readonly localDetector: LocalDetector | undefined;
  readonly nodePortAddresses: NodePortAddresses;
  /**
   * Says how node ports on loopback are treated where the rules cannot serve them (nftables mode). `listeners`:
   * listeners in user space serve TCP, and the rules reject UDP and SCTP. `rejects`: the rules reject all three.
   * Absent: the rules leave loopback alone.
   */
  readonly loopback?: "listeners" | "rejects";
  /** Ranges of cluster IPs, merged and sorted. */
  readonly serviceCIDRs: readonly string[];
  /** The same without the known ranges of pods inside them: an address here that no Service has is nobody's. */
  readonly guardedCIDRs: readonly string[];
  /** Addresses that no guard of virtual IPs concerns, sorted: the node's own, and the API server's inside a ServiceCIDR. */
  readonly ownAddresses: readonly string[];
}

/** What all rules need to know of the node and its configuration. A change (but of the CIDRs and `ownAddresses`) means a full sync. */
export interface DesiredNode {
  /** The families that rules are written for, IPv4 first. */
  readonly ipFamilies: readonly Family[];
  readonly families: Readonly<Record<Family, DesiredFamily>>;
  readonly masqueradeAll: boolean;
  /** The packet mark that asks for masquerading: one bit, 0x4000 by default. */
  readonly masqueradeMark: number;
  /** The port of the health server, which answers on all addresses; 0: there is none. */
  readonly healthzPort: number;
  /** Whether node ports answer on 127.0.0.1 (iptables mode, IPv4 only). */
  readonly localhostNodePorts: boolean;
  /** Whether packets that conntrack finds invalid are let through (iptables mode; `conntrack.tcpBeLiberal`). */
  readonly tcpBeLiberal: boolean;
  /** Whether the elements of frontends count connections (nftables mode; the rules of iptables always do). */
  readonly countsConnections: boolean;
}

/** The complete desired state: by `namespace/name` of the Service, its ports of both families. */
export interface DesiredState {
  readonly node: DesiredNode;
  readonly services: ReadonlyMap<string, readonly DesiredServicePort[]>;
}

/** A complete desired state whose Services are still worked out: some can be written meanwhile. */
export interface StreamedState {
  readonly node: DesiredNode;
  /** How many Services there will be. */
  readonly size: number;
  /**
   * The ports of each Service, in the order of `namespace/name`; `undefined` where other work can be done. Read to
   * its end by who applies the state.
   */
  readonly services: Generator<readonly DesiredServicePort[] | undefined, unknown>;
}

/**
 * One Service's step from what it was to what it is to be; an empty list is no rules. Where both are
 * the same list, nothing changes.
 */
export interface ServiceChange {
  readonly before: readonly DesiredServicePort[];
  readonly after: readonly DesiredServicePort[];
}

/** The step of the full state. `node` is there where it changed. */
export interface StateChange {
  readonly node: { readonly before: DesiredNode; readonly after: DesiredNode } | undefined;
  readonly services: ReadonlyMap<string, ServiceChange>;
}

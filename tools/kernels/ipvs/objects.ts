/**
 * The Services of the take-over from kube-proxy's ipvs mode: as the API server has them, and as
 * kube-proxy saw them last. They differ in two: one is deleted since, one has lost its endpoints.
 *
 * @module
 */
import {
  ADDRESS_BITS,
  FAMILIES,
  type Family,
  integerToAddress,
} from "../../../lib/model/values/address.ts";
import { addressToInteger } from "../../../lib/model/values/address.ts";
import {
  ADDRESSES,
  clusterObjects,
  type Manifest,
  PORT,
  service,
  slice,
  TARGET_PORT,
} from "../../../tests/e2e/cluster.ts";

/** The hosts that serve everything. */
export const ENDPOINTS = ["local1", "remote1"] as const;

/** Node ports: of a Service that is there, of one with policy Local, and of the one that is deleted. */
export const NODE_PORTS = { live: 30_080, local: 30_081, deleted: 30_090 } as const;

/** The health-check node port of a Service with policy Local. */
const HEALTH_CHECK_NODE_PORTS: Readonly<Record<Family, number>> = { 4: 30_104, 6: 30_106 };

/** Cluster IPs that are there: with the others, each family has 22 virtual IPs. */
const LIVE = 15;
/** The number of the one with session affinity. */
const STICKY = 2;

/** The addresses of one family. */
export interface Vips {
  readonly family: Family;
  /** The cluster IP of the load balancer's Service. */
  readonly live: string;
  readonly loadBalancer: string;
  /** With policy Local. */
  readonly localLoadBalancer: string;
  /** With source ranges, in which all are that try it. */
  readonly limitedLoadBalancer: string;
  readonly externalIP: string;
  /** All cluster IPs that are there. */
  readonly clusterIPs: readonly string[];
  /** One of them, with session affinity. */
  readonly sticky: string;
  /** Of the Service that is deleted since. */
  readonly deleted: string;
  readonly deletedLoadBalancer: string;
  /** Of the Service that has lost its endpoints. */
  readonly empty: string;
}

/** The virtual IPs of a family. */
export function vipsOf(family: Family): Vips {
  const a = ADDRESSES[family];
  const clusterIPs = Array.from({ length: LIVE }, (_, i) => after(a.clusterIP, i));
  return {
    family,
    live: a.clusterIP,
    loadBalancer: a.loadBalancer,
    localLoadBalancer: after(a.loadBalancer, 1),
    limitedLoadBalancer: after(a.loadBalancer, 2),
    externalIP: a.externalIP,
    clusterIPs,
    sticky: after(a.clusterIP, STICKY),
    deleted: after(a.clusterIP, LIVE),
    deletedLoadBalancer: a.loadBalancer2,
    empty: after(a.clusterIP, LIVE + 1),
  };
}

/** Returns the present objects of the API server. */
export function liveObjects(): Manifest[] {
  return [...clusterObjects(ADDRESSES[4]), ...FAMILIES.flatMap(objectsOf)];
}

/** Returns the objects that kube-proxy saw last. */
export function objectsBefore(): Manifest[] {
  return [...liveObjects(), ...FAMILIES.flatMap(goneOf)];
}

function objectsOf(family: Family): Manifest[] {
  const a = ADDRESSES[family];
  const { clusterIPs, empty } = vipsOf(family);
  const special = specialsOf(family);
  return [
    ...clusterIPs.flatMap((clusterIP, i) => {
      const name = nameOf(i, family);
      const { spec, ingress } = special[i] ?? {};
      return [
        service(a, {
          name,
          spec: { clusterIP, ...spec },
          ...(ingress !== undefined && { ingress: [{ ip: ingress }] }),
        }),
        slice(a, ENDPOINTS, { service: name }),
      ];
    }),
    service(a, { name: nameOf("empty", family), spec: { clusterIP: empty } }),
  ];
}

/** Returns the special fields of some Services, by their number. */
function specialsOf(
  family: Family,
): Readonly<Record<number, { readonly spec: Manifest; readonly ingress?: string }>> {
  const a = ADDRESSES[family];
  const { loadBalancer, localLoadBalancer, limitedLoadBalancer, externalIP } = vipsOf(family);
  return {
    0: { spec: { type: "LoadBalancer" }, ingress: loadBalancer },
    1: { spec: { externalIPs: [externalIP] } },
    [STICKY]: {
      spec: {
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 100 } },
      },
    },
    3: {
      spec: {
        type: "LoadBalancer",
        externalTrafficPolicy: "Local",
        healthCheckNodePort: HEALTH_CHECK_NODE_PORTS[family],
        ports: ports(NODE_PORTS.local),
      },
      ingress: localLoadBalancer,
    },
    4: {
      spec: {
        type: "LoadBalancer",
        allocateLoadBalancerNodePorts: false,
        loadBalancerSourceRanges: [
          a.clientCIDR,
          a.clusterCIDR,
          `${a.node}/${ADDRESS_BITS[family]}`,
        ],
        ports: ports(),
      },
      ingress: limitedLoadBalancer,
    },
  };
}

/** Returns the objects deleted since, and the endpoints that are lost. */
function goneOf(family: Family): Manifest[] {
  const a = ADDRESSES[family];
  const { deleted, deletedLoadBalancer } = vipsOf(family);
  const name = nameOf("deleted", family);
  const spec = { type: "LoadBalancer", clusterIP: deleted, ports: ports(NODE_PORTS.deleted) };
  return [
    service(a, { name, spec, ingress: [{ ip: deletedLoadBalancer }] }),
    slice(a, ENDPOINTS, { service: name }),
    slice(a, ENDPOINTS, { service: nameOf("empty", family) }),
  ];
}

function nameOf(what: number | string, family: Family): string {
  return `s${what}-${family}`;
}

/** The ports of a Service; without `nodePort`, it has none. */
function ports(nodePort?: number): Manifest[] {
  return ["TCP", "UDP"].map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: PORT,
    targetPort: TARGET_PORT,
    ...(nodePort !== undefined && { nodePort }),
  }));
}

function after(address: string, count: number): string {
  const family = address.includes(":") ? 6 : 4;
  return integerToAddress(family, addressToInteger(address) + BigInt(count));
}

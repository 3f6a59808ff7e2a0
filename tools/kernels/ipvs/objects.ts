/**
 * The Services of the take-over from kube-proxy's ipvs mode: as the API server has them, and as
 * kube-proxy saw them last. They differ in two: one is deleted since, one has lost its endpoints.
 *
 * @module
 */
import { FAMILIES, type Family, integerToAddress } from "../../../lib/model/values/address.ts";
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

/** A node port of a Service that is there, and of the one that is deleted. */
export const NODE_PORTS = { live: 30_080, deleted: 30_090 } as const;

/** Cluster IPs that are there: with the others, each family has 20 virtual IPs. */
const LIVE = 15;

/** The addresses of one family. */
export interface Vips {
  readonly family: Family;
  /** The cluster IP of the load balancer's Service. */
  readonly live: string;
  readonly loadBalancer: string;
  readonly externalIP: string;
  /** All cluster IPs that are there. */
  readonly clusterIPs: readonly string[];
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
    externalIP: a.externalIP,
    clusterIPs,
    deleted: after(a.clusterIP, LIVE),
    deletedLoadBalancer: a.loadBalancer2,
    empty: after(a.clusterIP, LIVE + 1),
  };
}

/** A virtual server that kube-proxy made, with two endpoints, for TCP and for UDP. */
export interface Served {
  readonly address: string;
  readonly port: number;
  readonly endpoints: readonly string[];
}

/** All that kube-proxy served in a family. */
export function servedOf(
  family: Family,
): { readonly vips: readonly string[]; readonly servers: readonly Served[] } {
  const a = ADDRESSES[family];
  const all = vipsOf(family);
  const endpoints = ENDPOINTS.map((host) => a[host]);
  const vips = [
    ...all.clusterIPs,
    ...[all.deleted, all.empty, all.loadBalancer, all.externalIP, all.deletedLoadBalancer],
  ];
  const nodePorts = [a.node, a.nodeSecond].flatMap((address) =>
    Object.values(NODE_PORTS).map((port) => ({ address, port, endpoints }))
  );
  return {
    vips,
    servers: [...vips.map((address) => ({ address, port: PORT, endpoints })), ...nodePorts],
  };
}

/** What the API server has. */
export function liveObjects(): Manifest[] {
  return [...clusterObjects(ADDRESSES[4]), ...FAMILIES.flatMap(objectsOf)];
}

/** The port of every endpoint. */
export const ENDPOINT_PORT = TARGET_PORT;

function objectsOf(family: Family): Manifest[] {
  const a = ADDRESSES[family];
  const { clusterIPs, loadBalancer, externalIP, empty } = vipsOf(family);
  const name = (i: number | string) => `s${i}-${family}`;
  return [
    ...clusterIPs.flatMap((clusterIP, i) => [
      service(a, {
        name: name(i),
        spec: {
          clusterIP,
          ...(i === 0 && { type: "LoadBalancer" }),
          ...(i === 1 && { externalIPs: [externalIP] }),
        },
        ...(i === 0 && { ingress: [{ ip: loadBalancer }] }),
      }),
      slice(a, ENDPOINTS, { service: name(i) }),
    ]),
    service(a, { name: name("empty"), spec: { clusterIP: empty } }),
  ];
}

function after(address: string, count: number): string {
  const family = address.includes(":") ? 6 : 4;
  return integerToAddress(family, addressToInteger(address) + BigInt(count));
}

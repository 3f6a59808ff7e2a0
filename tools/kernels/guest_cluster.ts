/**
 * The Services that the daemon has in a machine, and what becomes of packets to them.
 *
 * @module
 */
import type { Family } from "../../lib/model/values/address.ts";
import {
  ADDRESSES,
  type Addresses,
  clusterObjects,
  configuration,
  type Manifest,
  service,
  slice,
} from "../../tests/e2e/cluster.ts";
import { type Flow, nodePortFlow } from "../../tests/e2e/flow.ts";
import type { Backend } from "./steps.ts";

const REACHES = ["local1", "remote1"] as const;

/** The last group of each Service's cluster IP. */
const LAST_GROUPS = { limited: "20", sticky: "30", empty: "40" } as const;

/** Objects of both families: dual-stack manifests are the usual ones, also on a node without IPv6. */
export function guestObjects(): Manifest[] {
  const families = [ADDRESSES[4], ADDRESSES[6]];
  return [...clusterObjects(ADDRESSES[4]), ...families.flatMap(objectsOf)];
}

/** Returns the daemon's configuration. */
export function guestConfiguration(backend: Backend): Manifest {
  const periods = { minSyncPeriod: "50ms", syncPeriod: "1s" };
  const mode = backend === "nftables" ? "nftables" : "iptables";
  return configuration(ADDRESSES[4], { mode, nftables: periods, iptables: periods });
}

/** Returns the outcomes of packets while the rules are there. */
export function flowsWith(families: readonly Family[]): Flow[] {
  return families.flatMap((family) => {
    const a = ADDRESSES[family];
    const masqueraded = true;
    const protocols = ["tcp"] as const;
    return [
      { from: "pod", to: a.clusterIP, reaches: REACHES },
      { from: "local1", to: clusterIp(a, "sticky"), reaches: ["local1"], masqueraded, protocols },
      nodePortFlow(a, { from: "client", reaches: REACHES, masqueraded, protocols }),
      { from: "client", to: a.loadBalancer, reaches: REACHES, masqueraded, protocols },
      { from: "client2", to: a.loadBalancer, reaches: "drop", protocols },
      { from: "client2", to: a.externalIP, reaches: ["local1"], masqueraded, protocols },
      { from: "pod", to: clusterIp(a, "empty"), reaches: "reject", protocols },
    ];
  });
}

/** Returns the outcomes of packets without rules: they leave by the default route. */
export function flowsWithout(families: readonly Family[]): Flow[] {
  return families.map((family) => (
    { from: "pod", to: ADDRESSES[family].clusterIP, reaches: "world" }
  ));
}

function objectsOf(a: Addresses): Manifest[] {
  const name = (base: string) => `${base}${a.family}`;
  const clusterIP = (base: keyof typeof LAST_GROUPS) => ({ clusterIP: clusterIp(a, base) });
  const [web, limited] = [name("web"), name("limited")];
  const [sticky, empty] = [name("sticky"), name("empty")];
  return [
    service(a, { name: web, spec: { type: "NodePort" } }),
    slice(a, REACHES, { service: web }),
    service(a, {
      name: limited,
      spec: {
        type: "LoadBalancer",
        ...clusterIP("limited"),
        ports: ["TCP", "UDP"].map((protocol) => (
          { name: protocol.toLowerCase(), protocol, port: 80, targetPort: 8080 }
        )),
        loadBalancerSourceRanges: [a.clientCIDR],
      },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, REACHES, { service: limited }),
    service(a, {
      name: sticky,
      spec: {
        ...clusterIP("sticky"),
        externalIPs: [a.externalIP],
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 100 } },
      },
    }),
    slice(a, ["local1"], { service: sticky }),
    service(a, { name: empty, spec: clusterIP("empty") }),
  ];
}

function clusterIp(a: Addresses, base: keyof typeof LAST_GROUPS): string {
  return a.clusterIP.replace(/10$/, LAST_GROUPS[base]);
}

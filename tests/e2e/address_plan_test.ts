/**
 * Address plans that overlap: pods, nodes and the API server inside a ServiceCIDR.
 *
 * @module
 */
import { testCase } from "./case.ts";
import { type Addresses, type Manifest, service, slice, TARGET_PORT } from "./cluster.ts";
import { nodePortFlow } from "./flow.ts";

/** A ServiceCIDR beside the usual one. */
function serviceCIDR(...cidrs: readonly string[]): Manifest {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name: "wide" },
    spec: { cidrs },
  };
}

/** A connection to the port on which an endpoint listens, not to a Service. */
function direct(a: Addresses, to: "local1" | "remote1") {
  return { from: "node", to: a[to], port: TARGET_PORT } as const;
}

for (const mode of ["nftables", "iptables"] as const) {
  testCase(`a Service reaches its endpoints inside a ServiceCIDR, ${mode}`, (a) => ({
    objects: [
      serviceCIDR(a.clusterCIDR),
      service(a, { spec: { type: "NodePort" } }),
      slice(a, ["local1", "remote1"]),
    ],
    // Of the pods' ranges, only the one of this node is known.
    config: { mode, clusterCIDR: a.podCIDR },
    flows: [
      { from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] },
      { from: "node", to: a.clusterIP, reaches: ["local1", "remote1"], masqueraded: true },
      nodePortFlow(a, { from: "client", reaches: ["local1", "remote1"], masqueraded: true }),
      { ...direct(a, "local1"), reaches: ["local1"] },
      { ...direct(a, "remote1"), reaches: mode === "nftables" ? "drop" : ["remote1"] },
      { from: "pod", to: a.unallocated, reaches: mode === "nftables" ? "drop" : "world" },
    ],
  }));
}

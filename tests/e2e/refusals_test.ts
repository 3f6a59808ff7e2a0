import { FAMILIES } from "../../lib/model/values/address.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { ADDRESSES, type Addresses, service, slice } from "./cluster.ts";
import { applyOnce, createCluster, testCase } from "./case.ts";
import { assertFlows, nodePortFlow } from "./flow.ts";

const SOURCES = ["pod", "node", "client"] as const;

function loadBalancer(a: Addresses) {
  return service(a, {
    spec: { type: "LoadBalancer", externalIPs: [a.externalIP] },
    ingress: [{ ip: a.loadBalancer }],
  });
}

testCase("a Service without endpoints rejects, on all of its addresses", (a) => ({
  objects: [loadBalancer(a), slice(a, [])],
  flows: SOURCES.flatMap((from) => [
    ...[a.clusterIP, a.loadBalancer, a.externalIP].map((to) =>
      ({ from, to, reaches: "reject" }) as const
    ),
    nodePortFlow(a, { from, reaches: "reject" }),
  ]),
}));

testCase("Local policies without any endpoint anywhere reject", (a) => ({
  objects: [
    service(a, {
      spec: {
        type: "LoadBalancer",
        internalTrafficPolicy: "Local",
        externalTrafficPolicy: "Local",
      },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, [{ host: "remote1", conditions: { ready: false } }]),
  ],
  flows: [
    { from: "pod", to: a.clusterIP, reaches: "reject" },
    { from: "client", to: a.loadBalancer, reaches: "reject" },
    nodePortFlow(a, { from: "client", reaches: "reject" }),
  ],
}));

testCase(
  "an undefined port of a cluster IP rejects",
  (a) => ({
    objects: [loadBalancer(a), slice(a, ["local1"])],
    flows: [
      ...SOURCES.map((from) => ({ from, to: a.clusterIP, port: 81, reaches: "reject" }) as const),
      { from: "client", to: a.loadBalancer, port: 81, reaches: "world" },
      { from: "client", to: a.externalIP, port: 81, reaches: "world" },
    ],
  }),
);

testCase("an unallocated address of a ServiceCIDR drops", (a) => ({
  objects: [service(a), slice(a, ["local1"])],
  flows: SOURCES.map((from) => ({ from, to: a.unallocated, reaches: "drop" }) as const),
}));

/** Drops what comes in or is forwarded, but for packets of known connections. */
const FIREWALL = `table inet host {
  chain input {
    type filter hook input priority 0; policy drop;
    meta l4proto ipv6-icmp accept
    ct state established,related accept
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
  }
}
`;

const test = sideBySide("refusals beside a firewall");

for (const family of FAMILIES) {
  test(`a later firewall does not drop what signpost rejects (IPv${family})`, async () => {
    const a = ADDRESSES[family];
    await using network = await createCluster();
    const empty = { name: "empty", spec: { clusterIP: a.clusterIP2, type: "NodePort" } };
    const objects = [service(a), slice(a, ["local1"]), service(a, empty)];
    await applyOnce(network, { a, objects });
    await network.applyNft(FIREWALL);
    await assertFlows(
      network,
      (["pod", "client"] as const).flatMap((from) => [
        { from, to: a.clusterIP, port: 81, reaches: "reject" } as const,
        { from, to: a.clusterIP2, reaches: "reject" } as const,
        nodePortFlow(a, { from, reaches: "reject" }),
      ]),
    );
  });
}

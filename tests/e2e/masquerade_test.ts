import { ADDRESSES, service, slice } from "./cluster.ts";
import { assertFlows } from "./flow.ts";
import { FAMILIES, NFT_FAMILY } from "../../lib/model/values/address.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { applyOnce, createCluster, testCase } from "./case.ts";

const ENDPOINTS = ["local1", "remote1"] as const;

testCase("an endpoint that connects to its own Service reaches itself, masqueraded", (a) => ({
  objects: [
    service(a, {
      spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, ["local1"]),
  ],
  flows: [
    { from: "local1", to: a.clusterIP, reaches: ["local1"], masqueraded: true },
    { from: "local1", to: a.loadBalancer, reaches: ["local1"], masqueraded: true },
    { from: "local2", to: a.clusterIP, reaches: ["local1"] },
  ],
}));

testCase("without a way to detect local traffic nothing is masqueraded for its source", (a) => ({
  objects: [service(a), slice(a, ENDPOINTS)],
  config: { clusterCIDR: "" },
  flows: (["pod", "client", "node"] as const).map((from) => ({
    from,
    to: a.clusterIP,
    reaches: ENDPOINTS,
  })),
}));

testCase("masqueradeAll masquerades all traffic to cluster IPs", (a) => ({
  objects: [service(a), slice(a, ENDPOINTS)],
  config: { nftables: { masqueradeAll: true } },
  flows: (["pod", "client", "node"] as const).map((from) => ({
    from,
    to: a.clusterIP,
    reaches: ENDPOINTS,
    masqueraded: true,
  })),
}));

testCase("detectLocalMode BridgeInterface holds what comes in there for local", (a) => ({
  objects: [service(a), slice(a, ENDPOINTS)],
  config: { detectLocalMode: "BridgeInterface", detectLocal: { bridgeInterface: "pod" } },
  flows: [
    { from: "pod", to: a.clusterIP, reaches: ENDPOINTS },
    { from: "local2", to: a.clusterIP, reaches: ENDPOINTS, masqueraded: true },
    { from: "client", to: a.clusterIP, reaches: ENDPOINTS, masqueraded: true },
  ],
}));

testCase(
  "detectLocalMode InterfaceNamePrefix takes packets of such interfaces for local",
  (a) => ({
    objects: [service(a), slice(a, ENDPOINTS)],
    config: {
      detectLocalMode: "InterfaceNamePrefix",
      detectLocal: { interfaceNamePrefix: "local" },
    },
    flows: [
      { from: "local2", to: a.clusterIP, reaches: ENDPOINTS },
      { from: "pod", to: a.clusterIP, reaches: ENDPOINTS, masqueraded: true },
      { from: "client", to: a.clusterIP, reaches: ENDPOINTS, masqueraded: true },
    ],
  }),
);

testCase(
  "the mark is the configured bit",
  (a) => ({
    objects: [service(a), slice(a, ENDPOINTS)],
    config: { nftables: { masqueradeBit: 20 } },
    flows: [
      { from: "client", to: a.clusterIP, reaches: ENDPOINTS, masqueraded: true },
      { from: "client", to: a.local1, port: 8080, reaches: ["local1"] },
      { from: "local1", to: a.local1, port: 8080, reaches: ["local1"] },
    ],
  }),
);

const test = sideBySide("marks of other programs");

for (const mode of ["nftables", "iptables"] as const) {
  for (const family of FAMILIES) {
    test(`another program's mark masquerades nothing, ${mode} (IPv${family})`, async () => {
      const a = ADDRESSES[family];
      await using network = await createCluster();
      const objects = [service(a), slice(a, ["local1"])];
      await applyOnce(network, { a, objects, config: { mode } });
      // WireGuard marks its packets so.
      await network.applyNft(`table inet vpn {
        chain marks {
          type filter hook prerouting priority -150;
          ${NFT_FAMILY[family]} daddr ${a.local1} meta mark set 0xca6c
        }
      }\n`);
      await assertFlows(network, [
        { from: "client", to: a.local1, port: 8080, reaches: ["local1"] },
        { from: "client", to: a.clusterIP, reaches: ["local1"], masqueraded: true },
      ]);
    });
  }
}

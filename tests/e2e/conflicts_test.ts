import { service, slice } from "./cluster.ts";
import type { Addresses, Manifest } from "./cluster.ts";
import { testCase } from "./case.ts";

const OLD = "2024-01-01T00:00:00Z";
const NEW = "2025-01-01T00:00:00Z";

/** A Service with the shared external IP, and its endpoint. */
function claimant(
  a: Addresses,
  claim: { readonly name: string; readonly created: string; readonly clusterIP: string },
  host: "local1" | "remote1",
): Manifest[] {
  const { name, created, clusterIP } = claim;
  return [
    service(a, { name, created, spec: { clusterIP, externalIPs: [a.externalIP] } }),
    slice(a, [host], { service: name }),
  ];
}

testCase(
  "the older of two Services has their external IP",
  (a) => ({
    objects: [
      ...claimant(a, { name: "a-young", created: NEW, clusterIP: a.clusterIP }, "local1"),
      ...claimant(a, { name: "z-old", created: OLD, clusterIP: a.clusterIP2 }, "remote1"),
    ],
    flows: [
      { from: "client", to: a.externalIP, reaches: ["remote1"], masqueraded: true },
      { from: "pod", to: a.clusterIP, reaches: ["local1"] },
      { from: "pod", to: a.clusterIP2, reaches: ["remote1"] },
    ],
    warns: /shop\/a-young.*shop\/z-old|shop\/z-old.*shop\/a-young/,
  }),
);

testCase("Services share an address where their ports differ", (a) => {
  const young = service(a, {
    name: "young",
    created: NEW,
    spec: {
      clusterIP: a.clusterIP2,
      externalIPs: [a.externalIP],
      ports: [{ name: "tcp", protocol: "TCP", port: 81 }],
    },
  });
  return {
    objects: [
      ...claimant(a, { name: "old", created: OLD, clusterIP: a.clusterIP }, "local1"),
      young,
      slice(a, ["remote1"], { service: "young" }),
    ],
    flows: [
      { from: "client", to: a.externalIP, reaches: ["local1"], masqueraded: true },
      {
        from: "client",
        to: a.externalIP,
        port: 81,
        protocols: ["tcp"],
        reaches: ["remote1"],
        masqueraded: true,
      },
    ],
  };
});

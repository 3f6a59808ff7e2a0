/**
 * An old Service asks for what a younger one is given: whoever may create Services in one namespace
 * must not get the traffic of another.
 */
import { testCase } from "../case.ts";
import { type Addresses, type Manifest, NODE_PORT, service, slice } from "../cluster.ts";
import { nodePortFlow } from "../flow.ts";

const OLD = "2024-01-01T00:00:00Z";
const NEW = "2025-01-01T00:00:00Z";

/** The old Service, whose traffic would go to `remote1`. */
function squatter(a: Addresses, externalIPs: readonly string[], port = 80): Manifest[] {
  const ports = ["TCP", "UDP"].map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port,
  }));
  const spec = { clusterIP: a.clusterIP2, externalIPs, ports };
  return [
    service(a, { name: "squat", created: OLD, spec }),
    slice(a, ["remote1"], { service: "squat" }),
  ];
}

/** The young Service, with its endpoint `local1`. */
function bank(a: Addresses, spec: Manifest, ingress: readonly Manifest[] = []): Manifest[] {
  return [
    service(a, { name: "bank", created: NEW, spec, ingress }),
    slice(a, ["local1"], { service: "bank" }),
  ];
}

testCase("an old external IP does not take the cluster IP of a younger Service", (a) => ({
  objects: [...squatter(a, [a.clusterIP]), ...bank(a, {})],
  flows: [
    { from: "pod", to: a.clusterIP, reaches: ["local1"] },
    { from: "node", to: a.clusterIP, reaches: ["local1"], masqueraded: true },
  ],
  warns: /shop\/squat does not get.*shop\/bank/,
}));

testCase(
  "an external IP in a ServiceCIDR takes no traffic before the address is given out",
  (a) => ({
    objects: squatter(a, [a.unallocated]),
    flows: [{ from: "pod", to: a.unallocated, reaches: "drop" }],
    warns: /shop\/squat does not get.*the ServiceCIDR/,
  }),
);

testCase("an old external IP takes neither a load-balancer IP nor its source ranges", (a) => ({
  objects: [
    ...squatter(a, [a.loadBalancer]),
    ...bank(a, { type: "LoadBalancer", loadBalancerSourceRanges: [a.clientCIDR] }, [
      { ip: a.loadBalancer },
    ]),
  ],
  flows: [
    { from: "client", to: a.loadBalancer, reaches: ["local1"], masqueraded: true },
    { from: "client2", to: a.loadBalancer, reaches: "drop" },
  ],
  warns: /shop\/squat does not get.*shop\/bank/,
}));

testCase(
  "an old external IP at a node's address does not take a node port",
  (a) => ({
    objects: [...squatter(a, [a.node], NODE_PORT), ...bank(a, { type: "NodePort" })],
    flows: [nodePortFlow(a, { from: "client", reaches: ["local1"], masqueraded: true })],
    warns: /shop\/squat does not get.*shop\/bank/,
  }),
);

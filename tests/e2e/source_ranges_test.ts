import { type Addresses, type Manifest, service, slice } from "./cluster.ts";
import { type Flow, nodePortFlow } from "./flow.ts";
import { testCase } from "./case.ts";

const ENDPOINTS = ["local1", "remote1"] as const;

function ranged(a: Addresses, loadBalancerSourceRanges: readonly string[], spec: Manifest = {}) {
  return service(a, {
    spec: { type: "LoadBalancer", loadBalancerSourceRanges, externalIPs: [a.externalIP], ...spec },
    ingress: [{ ip: a.loadBalancer }, { ip: a.loadBalancer2 }],
  });
}

/** Both load-balancer IPs. */
function balanced(a: Addresses, flow: Omit<Flow, "to" | "port">): Flow[] {
  return [a.loadBalancer, a.loadBalancer2].map((to) => ({ ...flow, to }));
}

testCase("sources outside of the ranges are dropped at the load-balancer IPs", (a) => ({
  objects: [ranged(a, [a.clientCIDR]), slice(a, ENDPOINTS)],
  flows: [
    ...balanced(a, { from: "client", reaches: ENDPOINTS, masqueraded: true }),
    ...(["client2", "pod", "node"] as const).flatMap((from) =>
      balanced(a, { from, reaches: "drop" })
    ),
  ],
}));

testCase("the ranges do not guard node ports, external IPs and the cluster IP", (a) => ({
  objects: [ranged(a, [a.clientCIDR]), slice(a, ENDPOINTS)],
  flows: [
    { from: "client2", to: a.externalIP, reaches: ENDPOINTS, masqueraded: true },
    { from: "client2", to: a.clusterIP, reaches: ENDPOINTS, masqueraded: true },
    nodePortFlow(a, { from: "client2", reaches: ENDPOINTS, masqueraded: true }),
  ],
}));

testCase("several ranges, white space around them, overlaps and pods among them are fine", (a) => ({
  objects: [
    ranged(a, [` ${a.clientCIDR}`, `${a.client2CIDR}\t`, a.clusterCIDR, a.podCIDR]),
    slice(a, ENDPOINTS),
  ],
  flows: [
    ...(["client", "client2", "pod"] as const).flatMap((from) =>
      balanced(a, { from, reaches: ENDPOINTS, masqueraded: true })
    ),
    ...balanced(a, { from: "node", reaches: "drop" }),
  ],
}));

testCase("the ranges hold under the Local policy, too", (a) => ({
  objects: [ranged(a, [a.clientCIDR], { externalTrafficPolicy: "Local" }), slice(a, ENDPOINTS)],
  flows: [
    ...balanced(a, { from: "client", reaches: ["local1"] }),
    ...balanced(a, { from: "client2", reaches: "drop" }),
    ...balanced(a, { from: "pod", reaches: "drop" }),
    nodePortFlow(a, { from: "client2", reaches: ["local1"] }),
  ],
}));

testCase(
  "a source outside of the ranges is dropped, also without endpoints",
  (a) => ({
    objects: [ranged(a, [a.clientCIDR]), slice(a, [])],
    flows: [
      ...balanced(a, { from: "client", reaches: "reject" }),
      ...balanced(a, { from: "client2", reaches: "drop" }),
    ],
  }),
);

testCase(
  "a range with the node's address admits the load-balancer IP itself",
  (a) => ({
    objects: [ranged(a, [`${a.node}/${a.family === 4 ? 32 : 128}`]), slice(a, ENDPOINTS)],
    nodeAddresses: [a.loadBalancer],
    flows: [
      { from: "node", to: a.loadBalancer, reaches: ENDPOINTS, masqueraded: true },
      {
        from: "node",
        source: a.loadBalancer,
        to: a.loadBalancer,
        reaches: ENDPOINTS,
        masqueraded: true,
      },
      { from: "client", to: a.loadBalancer, reaches: "drop" },
    ],
  }),
);

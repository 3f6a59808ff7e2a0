import { type Addresses, service, slice } from "./cluster.ts";
import { type Flow, nodePortFlow } from "./flow.ts";
import { testCase } from "./case.ts";

const ENDPOINTS = ["local1", "local2", "remote1"] as const;
const LOCAL = ["local1", "local2"] as const;

/** A Service with every kind of external address. */
function exposed(a: Addresses, spec: Readonly<Record<string, unknown>>) {
  return service(a, {
    spec: { type: "LoadBalancer", externalIPs: [a.externalIP], ...spec },
    ingress: [{ ip: a.loadBalancer }],
  });
}

/** The same expectation for the load balancer, the external IP and the node port. */
function external(a: Addresses, flow: Omit<Flow, "to" | "port">): Flow[] {
  return [{ ...flow, to: a.loadBalancer }, { ...flow, to: a.externalIP }, nodePortFlow(a, flow)];
}

testCase("external policy Local: clients reach local endpoints with their own address", (a) => ({
  objects: [exposed(a, { externalTrafficPolicy: "Local" }), slice(a, ENDPOINTS)],
  flows: [
    ...external(a, { from: "client", reaches: LOCAL }),
    { from: "pod", to: a.clusterIP, reaches: ENDPOINTS },
  ],
}));

testCase("external policy Local: pods and the node are led to all endpoints", (a) => ({
  objects: [exposed(a, { externalTrafficPolicy: "Local" }), slice(a, ENDPOINTS)],
  flows: [
    ...external(a, { from: "pod", reaches: ENDPOINTS }),
    ...external(a, { from: "node", reaches: ENDPOINTS, masqueraded: true }),
  ],
}));

testCase(
  "external policy Local drops clients without a local endpoint",
  (a) => ({
    objects: [exposed(a, { externalTrafficPolicy: "Local" }), slice(a, ["remote1"])],
    flows: [
      ...external(a, { from: "client", reaches: "drop" }),
      ...external(a, { from: "pod", reaches: ["remote1"] }),
      ...external(a, { from: "node", reaches: ["remote1"], masqueraded: true }),
      { from: "client", to: a.clusterIP, reaches: ["remote1"], masqueraded: true },
    ],
  }),
);

testCase(
  "internal policy Local: the cluster IP leads to local endpoints",
  (a) => ({
    objects: [exposed(a, { internalTrafficPolicy: "Local" }), slice(a, ENDPOINTS)],
    flows: [
      { from: "pod", to: a.clusterIP, reaches: LOCAL },
      { from: "node", to: a.clusterIP, reaches: LOCAL, masqueraded: true },
      { from: "client", to: a.clusterIP, reaches: LOCAL, masqueraded: true },
      ...external(a, { from: "client", reaches: ENDPOINTS, masqueraded: true }),
    ],
  }),
);

testCase(
  "internal policy Local: the cluster IP drops without a local endpoint",
  (a) => ({
    objects: [exposed(a, { internalTrafficPolicy: "Local" }), slice(a, ["remote1"])],
    flows: [
      { from: "pod", to: a.clusterIP, reaches: "drop" },
      { from: "node", to: a.clusterIP, reaches: "drop" },
      ...external(a, { from: "client", reaches: ["remote1"], masqueraded: true }),
    ],
  }),
);

testCase("both policies Local: each decides for its own addresses", (a) => ({
  objects: [
    exposed(a, { internalTrafficPolicy: "Local", externalTrafficPolicy: "Local" }),
    slice(a, ENDPOINTS),
  ],
  flows: [
    { from: "pod", to: a.clusterIP, reaches: LOCAL },
    ...external(a, { from: "client", reaches: LOCAL }),
    ...external(a, { from: "pod", reaches: ENDPOINTS }),
  ],
}));

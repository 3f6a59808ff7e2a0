import { service, slice } from "./cluster.ts";
import { testCase } from "./case.ts";
import { nodePortFlow } from "./flow.ts";

const DYING = { ready: false, serving: true, terminating: true };

testCase("terminating endpoints are a fallback for the local and the cluster set apart", (a) => ({
  objects: [
    service(a, {
      spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, [{ host: "local1", conditions: DYING }, "remote1"]),
  ],
  flows: [
    { from: "client", to: a.loadBalancer, reaches: ["local1"] },
    nodePortFlow(a, { from: "client", reaches: ["local1"] }),
    { from: "pod", to: a.loadBalancer, reaches: ["remote1"] },
    { from: "pod", to: a.clusterIP, reaches: ["remote1"] },
  ],
}));

testCase("an endpoint without a nodeName is not local", (a) => ({
  objects: [
    service(a, {
      spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, [{ host: "local1", hasNode: false }]),
  ],
  flows: [
    { from: "pod", to: a.clusterIP, reaches: ["local1"] },
    { from: "local1", to: a.clusterIP, reaches: ["local1"], masqueraded: true },
    { from: "client", to: a.loadBalancer, reaches: "drop" },
  ],
}));

import { service, slice } from "./cluster.ts";
import { testCaseInBothModes } from "./case.ts";
import { nodePortFlow } from "./flow.ts";

const TERMINATING = { ready: false, serving: false, terminating: true };

testCaseInBothModes(
  "an endpoint whose address was a terminating one's takes traffic",
  (a) => ({
    objects: [
      service(a),
      slice(a, [
        { host: "local1", conditions: TERMINATING },
        "local1",
        "remote1",
        { host: "remote1", conditions: TERMINATING },
      ]),
    ],
    flows: [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }],
  }),
);

testCaseInBothModes(
  "a pod of another node that a short circuit sends back to itself is masqueraded",
  (a) => ({
    objects: [
      service(a, {
        spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
        ingress: [{ ip: a.loadBalancer }],
      }),
      slice(a, ["remote1"]),
    ],
    flows: [
      nodePortFlow(a, { from: "remote1", reaches: ["remote1"], masqueraded: true }),
      { from: "remote1", to: a.loadBalancer, reaches: ["remote1"], masqueraded: true },
      nodePortFlow(a, { from: "remote2", reaches: ["remote1"] }),
    ],
  }),
);

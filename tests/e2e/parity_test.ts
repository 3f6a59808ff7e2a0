import { assertEquals, assertNotMatch } from "@std/assert";
import type { ApiObject } from "../support/api_store.ts";
import { NODE } from "../support/topology.ts";
import { testCaseInBothModes } from "./case.ts";
import { ADDRESSES, clusterObjects, NODE_PORT, service, slice } from "./cluster.ts";
import { assertFlows, nodePortFlow } from "./flow.ts";
import { Stage, syncs } from "./stage.ts";

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

testCaseInBothModes(
  "node ports answer on all of the node's addresses without a Node",
  (a) => ({
    hasNode: false,
    objects: [service(a, { spec: { type: "NodePort" } }), slice(a, ["remote1"])],
    config: { nodePortAddresses: ["primary"] },
    flows: [a.node, a.nodeSecond].map((to) => ({
      from: "client",
      to,
      port: NODE_PORT,
      reaches: ["remote1"],
      masqueraded: true,
    })),
    warns: /^(?!.*no address.*no address).*WARN no address of this node is known/s,
  }),
);

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`a Node that is registered again changes no rule, ${mode}`, async () => {
    const a = ADDRESSES[4];
    const config = { mode, nodePortAddresses: ["primary"], detectLocalMode: "NodeCIDR" };
    await using stage = await Stage.create({
      objects: [service(a, { spec: { type: "NodePort" } }), slice(a, ["local1"])],
      config,
    });
    await using signpost = await stage.startSynced();
    const list = mode === "nftables"
      ? ["nft", "-a", "list", "table", "inet", "signpost"]
      : ["iptables-save"];
    const rules = () => stage.network.run(NODE, list).then(withoutCounters);
    const before = await rules();
    const [node] = clusterObjects(a) as unknown as [ApiObject];
    const metadata = { ...node.metadata, uid: crypto.randomUUID(), labels: {} };
    const steps: readonly (() => void)[] = [
      () => stage.remove("Node", "node1"),
      () => stage.apply({ apiVersion: "v1", kind: "Node", metadata }),
      () => stage.apply({ ...node, metadata: { ...metadata, labels: node.metadata.labels } }),
    ];
    for (const [i, step] of steps.entries()) {
      step();
      // A Service that is there for a moment: when it has gone, the watch of Nodes has been heard.
      const passing = { name: "passing", spec: { clusterIP: a.clusterIP2 } };
      stage.apply(service(a, passing));
      await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP2, reaches: "reject" }]);
      stage.remove("Service", "shop/passing");
      await signpost.until("the rules as before", async () => {
        assertEquals(await rules(), before, `step ${i}`);
        return true;
      });
      await assertFlows(stage.network, [
        nodePortFlow(a, { from: "client", reaches: ["local1"], masqueraded: true }),
        { from: "client", to: a.nodeSecond, port: NODE_PORT, reaches: "reject" },
      ]);
    }
    assertEquals(syncs(signpost, "full"), 1);
    assertNotMatch(signpost.log, /no address of this node/);
  });
}

function withoutCounters(saved: string): string {
  return saved.replace(/^#.*\n/gm, "").replace(/ \[\d+:\d+\]$/gm, "")
    .replace(/ counter packets \d+ bytes \d+/g, "");
}

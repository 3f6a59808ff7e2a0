import { FAMILIES } from "../../lib/model/values/address.ts";
import { ADDRESSES, type Addresses, NODE_PORT, service, slice } from "./cluster.ts";
import { applyOnce, createCluster, testCase, testCaseInBothModes } from "./case.ts";
import { assertFlows, type Flow } from "./flow.ts";

const ENDPOINTS = ["local1", "remote1"] as const;

function objects(a: Addresses) {
  return [service(a, { spec: { type: "NodePort" } }), slice(a, ENDPOINTS)];
}

/** Returns the outcomes of connections to the node port at an address of the node. */
function at(to: string, isServed: boolean, from: Flow["from"] = "client"): Flow {
  // Nothing listens on the node itself: its kernel refuses what no rule leads away.
  return isServed
    ? { from, to, port: NODE_PORT, reaches: ENDPOINTS, masqueraded: true }
    : { from, to, port: NODE_PORT, reaches: "reject" };
}

testCase("node ports are on the node's primary address by default", (a) => ({
  objects: objects(a),
  flows: [at(a.node, true), at(a.nodeSecond, false), at(a.node, true, "node")],
}));

testCase("node ports can be on all of the node's addresses", (a) => ({
  objects: objects(a),
  config: { nodePortAddresses: [a.everyAddress] },
  flows: [at(a.node, true), at(a.nodeSecond, true), at(a.nodeSecond, true, "pod")],
}));

testCase("node ports can be on the addresses inside of CIDRs", (a) => ({
  objects: objects(a),
  config: { nodePortAddresses: [a.nodeSecondCIDR] },
  flows: [at(a.node, false), at(a.nodeSecond, true)],
}));

testCaseInBothModes("nodePortAddresses all is all of the node's addresses", (a) => ({
  objects: objects(a),
  config: { nodePortAddresses: ["all"] },
  flows: [at(a.node, true), at(a.nodeSecond, true)],
}));

testCaseInBothModes("nodePortAddresses localhost is not an address of an interface", (a) => ({
  objects: objects(a),
  config: { nodePortAddresses: ["localhost"] },
  flows: [at(a.node, false), at(a.nodeSecond, false)],
}));

testCase("mode ipvs takes words of nodePortAddresses", (a) => ({
  objects: objects(a),
  config: { mode: "ipvs", nodePortAddresses: ["primary", "localhost"] },
  flows: [at(a.node, true), at(a.nodeSecond, false)],
}));

testCase("addresses that the node forwards for have no node ports", (a) => ({
  objects: objects(a),
  config: { nodePortAddresses: [a.everyAddress] },
  flows: [
    { from: "client", to: a.loadBalancer, port: NODE_PORT, reaches: "world" },
    { from: "client", to: a.local2, port: NODE_PORT, reaches: "reject" },
  ],
}));

for (const family of FAMILIES) {
  Deno.test(`programs keep the node port on localhost (IPv${family})`, async () => {
    const a = ADDRESSES[family];
    await using network = await createCluster();
    for (const address of [a.loopback, a.nodeSecond]) {
      for (const protocol of ["tcp", "udp"] as const) {
        network.serve("node", { protocol, port: NODE_PORT, address });
      }
    }
    const kept = { port: NODE_PORT, reaches: ["node"], targetPort: NODE_PORT } as const;
    const localhost: Flow = { from: "node", source: a.loopback, to: a.loopback, ...kept };
    const second: Flow = { from: "client", to: a.nodeSecond, ...kept };
    const everywhere = { nodePortAddresses: [a.everyAddress] };
    for (const [config, flows] of [[{}, [localhost, second]], [everywhere, [localhost]]] as const) {
      await applyOnce(network, { a, objects: objects(a), config });
      await assertFlows(network, [...flows, at(a.node, true)]);
    }
  });
}

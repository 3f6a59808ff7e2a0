import { assert, assertEquals } from "@std/assert";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../lib/backend/nftables/kernel/nft.ts";
import { readConnections } from "../../lib/daemon/objects/client.ts";
import { nftablesRules } from "../../lib/backend/nftables/reading/kernel_rules.ts";
import { FAMILIES, type Family } from "../../lib/model/values/address.ts";
import { run } from "../support/command.ts";
import { SILENT_RUNNER } from "../support/modes.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { runSignpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { createCluster } from "./case.ts";
import {
  ADDRESSES,
  type Addresses,
  clusterObjects,
  type Manifest,
  manyFrontends,
  NODE_PORT,
  PORT,
  service,
  slice,
} from "./cluster.ts";
import { assertFlows, type Flow, nodePortFlow } from "./flow.ts";
import { both, bothFlows, Stage, syncs } from "./stage.ts";
import { SteadyClient } from "./steady.ts";

/** External IPs with each value of the low four bits. */
function externalIPs({ family }: Addresses): string[] {
  return Array.from(
    { length: 16 },
    (_, i) => family === 4 ? `172.16.0.${i + 32}` : `2001:db8:172::${(i + 32).toString(16)}`,
  );
}

/** A Service that has an address in each map. */
function everywhere(a: Addresses): Manifest[] {
  const name = `everywhere${a.family}`;
  const clusterIP = a.family === 4 ? "10.96.1.16" : "fd00:10:96::1:0";
  return [
    service(a, { name, spec: { clusterIP, externalIPs: externalIPs(a) } }),
    slice(a, ["remote1"], { service: name }),
  ];
}

/** A cluster IP without endpoints. */
const NO_ENDPOINTS: Readonly<Record<Family, string>> = { 4: "10.96.1.47", 6: "fd00:10:96::1:2f" };

/** A Service of every kind, with endpoints of its own node and of others, or of others alone. */
function kinds(a: Addresses): Manifest[] {
  const [all, local, none] = [`all${a.family}`, `local${a.family}`, `none${a.family}`];
  const nodePort = (nodePort: number) => [{ name: "tcp", port: PORT, nodePort }];
  return [
    service(a, {
      name: all,
      spec: { type: "NodePort", ports: nodePort(NODE_PORT), externalIPs: [a.externalIP] },
    }),
    slice(a, ["local1", "remote1"], { service: all }),
    service(a, {
      name: local,
      spec: {
        type: "LoadBalancer",
        clusterIP: a.clusterIP2,
        ports: nodePort(NODE_PORT + 1),
        externalTrafficPolicy: "Local",
      },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, ["remote2"], { service: local }),
    service(a, {
      name: none,
      spec: { clusterIP: NO_ENDPOINTS[a.family], externalIPs: [a.loadBalancer2] },
    }),
  ];
}

function flows(a: Addresses): Flow[] {
  const reaches = ["local1", "remote1"] as const;
  const tcp = { protocols: ["tcp"] } as const;
  return [
    ...externalIPs(a).map((to): Flow => ({
      from: "pod",
      to,
      reaches: ["remote1"],
      masqueraded: true,
    })),
    { from: "pod", to: a.clusterIP, reaches, ...tcp },
    { from: "client", to: a.clusterIP, reaches, masqueraded: true, ...tcp },
    { from: "client", to: a.externalIP, reaches, masqueraded: true, ...tcp },
    nodePortFlow(a, { from: "client", reaches, masqueraded: true, ...tcp }),
    // Under the Local policy, outsiders are dropped, and pods go to all endpoints.
    { from: "client", to: a.loadBalancer, reaches: "drop", ...tcp },
    { from: "pod", to: a.loadBalancer, reaches: ["remote2"], ...tcp },
    { from: "client", to: a.node, port: NODE_PORT + 1, reaches: "drop", ...tcp },
    // Without an endpoint, without a Service, and a port that the Service does not have.
    { from: "pod", to: NO_ENDPOINTS[a.family], reaches: "reject" },
    { from: "client", to: a.loadBalancer2, reaches: "reject" },
    { from: "pod", to: a.unallocated, reaches: "drop" },
    { from: "pod", to: a.clusterIP, port: 81, reaches: "reject" },
    { from: "client", to: a.externalIP, port: 81, reaches: "world" },
    { from: "client", to: a.node, port: NODE_PORT + 9, reaches: "reject", ...tcp },
  ];
}

Deno.test("packets go the same ways where frontends are cut, and nft lists what was written", async () => {
  const objects = [
    ...clusterObjects(ADDRESSES[4]),
    ...both((a) => [...everywhere(a), ...kinds(a)]),
  ] as unknown as ApiObject[];
  const prefix = (namespace: string) => ["ip", "netns", "exec", namespace];
  for (const mostFrontends of [Infinity, 0]) {
    await using network = await createCluster();
    const pipeline = new Pipeline({
      configuration: { clusterCIDRs: FAMILIES.map((each) => ADDRESSES[each].clusterCIDR) },
      nodeName: "node1",
      traits: { mostFrontends },
    });
    pipeline.load(objects);
    const dataplane = new NftablesDataplane(new Nft(SILENT_RUNNER));
    await network.applyNft(dataplane.full(pipeline.desired).text);
    await assertFlows(network, bothFlows(flows));
    const table = await run([
      ...prefix(network.namespaceOf(NODE)),
      ...["nft", "list", "table", "inet", "signpost"],
    ]);
    assertEquals(table.includes("map services4-15 {"), mostFrontends === 0);
    assertEquals(nftablesRules(table).compare(pipeline.desired).differences, []);
  }
});

Deno.test("a cluster that grows past 50,000 frontends has them cut: no new connection fails, and counts go on", async () => {
  const start = Array.from({ length: 5 }, (_, i) => manyFrontends(i)).flat();
  await using stage = await Stage.create({ objects: [...both(kinds), ...start] });
  const socket = ["--socket", `/run/signpost/e2e-${crypto.randomUUID()}.sock`];
  await using signpost = await stage.startSynced(socket);
  const maps = async () => {
    const structure = await run([
      ...["ip", "netns", "exec", stage.network.namespaceOf(NODE)],
      ...["nft", "-t", "list", "ruleset", "inet"],
    ]);
    return [...structure.matchAll(/map (services\S+) \{/g)].map(([, name]) => name).sort();
  };
  const counted = async () => {
    const args = ["top", "--once", "-o", "json", ...socket];
    const { stdout } = await runSignpost(stage.network, args);
    return readConnections(JSON.parse(stdout)).total.connections;
  };
  assertEquals(await maps(), ["services4", "services6"]);
  const clients = FAMILIES.flatMap((family) => {
    const { clusterIP, externalIP, node } = ADDRESSES[family];
    return [clusterIP, externalIP, node].map((address) => {
      const port = address === node ? NODE_PORT : PORT;
      return new SteadyClient(stage.network, { from: "client", address, port }, 10);
    });
  });
  const opened = () => clients.reduce((sum, client) => sum + client.opened, 0);
  await signpost.until("the first counts", async () => await counted() > 0);
  const before = await counted();
  stage.apply(...manyFrontends(5));
  await signpost.until("the cut", () => syncs(signpost, "full") > 1);
  const atCut = opened();
  await signpost.until("more connections", () => opened() > atCut + 200);
  const made = (await Promise.all(clients.map((client) => client.stop()))).reduce((a, b) => a + b);
  const shards = (family: number) => Array.from({ length: 16 }, (_, i) => `services${family}-${i}`);
  assertEquals(await maps(), [...shards(4), ...shards(6)].sort());
  await signpost.until("the counts of the new maps", async () => {
    const now = await counted();
    assert(now <= made && now >= Math.max(before, made - atCut), `${now} of ${made}`);
    return true;
  });
  assertEquals(signpost.log.match(/another program has changed/g), null);
  await stage.tableBecomesExpected(signpost);
});

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { FAMILIES, FAMILY_NAMES } from "../../lib/model/values/address.ts";
import type { Network } from "../support/network.ts";
import { NODE } from "../support/topology.ts";
import { runSignpost, type Signpost } from "../support/signpost.ts";
import {
  ADDRESSES,
  type Addresses,
  type EndpointHost,
  type Manifest,
  NODE_PORT,
  service,
  slice,
} from "./cluster.ts";
import type { Flow } from "./flow.ts";
import { both, bothFlows, Stage } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("node ports on loopback");

const METRIC = "kubeproxy_nftables_localhost_nodeport";
const ENDPOINTS = ["local1", "remote1"] as const;
const SERVED: Manifest = { nodePortAddresses: ["primary", "localhost"] };
const OTHER_LOOPBACK = "127.0.0.5";

function objects(endpoints: readonly EndpointHost[], spec: Manifest = {}): Manifest[] {
  return both((a) => [
    service(a, { name: nameOf(a), spec: { type: "NodePort", ...spec } }),
    slice(a, endpoints, { service: nameOf(a) }),
  ]);
}

function nameOf({ family }: Addresses): string {
  return `web${family}`;
}

/** A flow from a program of the node to the node port on loopback. */
function localFlow(a: Addresses, flow: Pick<Flow, "reaches"> & Partial<Flow>): Flow {
  const isServed = typeof flow.reaches !== "string";
  return {
    from: "node",
    source: a.loopback,
    to: a.loopback,
    port: NODE_PORT,
    ...isServed && { masqueraded: true, protocols: ["tcp"] },
    ...flow,
  };
}

async function hostSeen(network: Network, { loopback: address }: Addresses): Promise<string> {
  const from = { from: NODE, source: address };
  const [outcome] = await network.connect({ ...from, address, port: NODE_PORT, timeout: 10_000 });
  return outcome?.type === "answer" ? outcome.answer.host : `${outcome?.type}`;
}

async function listeners(stage: Stage, signpost: Signpost, count: number): Promise<void> {
  for (const family of FAMILIES) {
    const metric = `${METRIC}_listeners{ip_family="${FAMILY_NAMES[family]}"}`;
    await signpost.until(`${metric} ${count}`, async () => await stage.metric(metric) === count);
  }
}

test("node ports on loopback reach all endpoints if loopback is named", async () => {
  await using stage = await Stage.create({ objects: objects(ENDPOINTS), config: SERVED });
  await using signpost = await stage.startSynced();
  await listeners(stage, signpost, 1);
  await stage.flowsBecome(
    signpost,
    bothFlows((a) => [
      localFlow(a, { reaches: ENDPOINTS }),
      localFlow(a, { reaches: "reject", protocols: ["udp"] }),
      { from: "client", to: a.node, port: NODE_PORT, reaches: ENDPOINTS, masqueraded: true },
    ]),
  );
  await stage.flowsBecome(signpost, [
    localFlow(ADDRESSES[4], { to: OTHER_LOOPBACK, source: OTHER_LOOPBACK, reaches: "reject" }),
  ]);
  for (const family of FAMILIES) {
    const labels = `{ip_family="${FAMILY_NAMES[family]}",protocol="UDP"}`;
    await signpost.until("the count", async () => {
      return await stage.metric(`${METRIC}_rejected_packets_total${labels}`) >= 3;
    });
  }
});

test("node ports on loopback with policy Local reach endpoints of the node", async () => {
  const spec = { externalTrafficPolicy: "Local" };
  await using stage = await Stage.create({ objects: objects(ENDPOINTS, spec), config: SERVED });
  await using signpost = await stage.startSynced();
  await listeners(stage, signpost, 1);
  await stage.flowsBecome(signpost, bothFlows((a) => [localFlow(a, { reaches: ["local1"] })]));
  stage.apply(...both((a) => [slice(a, ["remote1"], { service: nameOf(a) })]));
  await listeners(stage, signpost, 0);
  await stage.flowsBecome(signpost, bothFlows((a) => [localFlow(a, { reaches: "reject" })]));
});

test("with session affinity all clients on loopback stay on one endpoint until it goes", async () => {
  const affinity = (timeoutSeconds: number): Manifest => ({
    sessionAffinity: "ClientIP",
    sessionAffinityConfig: { clientIP: { timeoutSeconds } },
  });
  await using stage = await Stage.create({
    objects: objects(ENDPOINTS, affinity(3600)),
    config: SERVED,
  });
  await using signpost = await stage.startSynced();
  await listeners(stage, signpost, 1);
  for (const a of FAMILIES.map((family) => ADDRESSES[family])) {
    const seen = new Set<string>();
    for (let i = 0; i < 24; i++) seen.add(await hostSeen(stage.network, a));
    const [pinned = ""] = seen;
    assertEquals(seen.size, 1);
    const other = ENDPOINTS.filter((host) => host !== pinned);
    stage.apply(slice(a, other, { service: nameOf(a) }));
    await stage.flowsBecome(signpost, [localFlow(a, { reaches: other })]);
  }
});

for (
  const [name, gates, protocols] of [
    ["loopback is not named and the gate is on", true, ["tcp", "udp", "sctp"]],
    ["loopback is named", false, ["udp", "sctp"]],
  ] as const
) {
  test(`${protocols.join(", ")} to node ports on loopback: rejected if ${name}`, async () => {
    const ports = ["TCP", "UDP", "SCTP"].map((protocol) => ({
      name: protocol.toLowerCase(),
      protocol,
      port: 80,
      nodePort: NODE_PORT,
    }));
    await using stage = await Stage.create({
      objects: objects(ENDPOINTS, { ports }),
      config: gates ? { featureGates: { KubeProxyNFTablesLocalhostNodePorts: true } } : SERVED,
    });
    stage.network.hearSctp();
    await using signpost = await stage.startSynced();
    await stage.flowsBecome(
      signpost,
      bothFlows((a) => [localFlow(a, { reaches: "reject", protocols })]),
    );
    for (const family of FAMILIES) {
      for (const protocol of ["tcp", "udp", "sctp"] as const) {
        const labels = `{ip_family="${FAMILY_NAMES[family]}",protocol="${protocol.toUpperCase()}"}`;
        const isCounted = (protocols as readonly string[]).includes(protocol);
        const metric = `${METRIC}_rejected_packets_total${labels}`;
        await signpost.until(metric, async () => await stage.metric(metric) > 0 === isCounted);
      }
    }
    await listeners(stage, signpost, gates ? 0 : 1);
    const { code, stdout } = await runSignpost(stage.network, ["verify", ...stage.args]);
    assertEquals(code, 0, stdout);
  });
}

test("node ports on loopback are left to the kernel if loopback is not named", async () => {
  await using stage = await Stage.create({ objects: objects(ENDPOINTS) });
  await using signpost = await stage.startSynced();
  await listeners(stage, signpost, 0);
  await stage.flowsBecome(signpost, bothFlows((a) => [localFlow(a, { reaches: "reject" })]));
  assertEquals((await stage.table()).some((line) => line.includes("localhost")), false);
});

test("a program keeps the node port that it has on loopback", async () => {
  await using stage = await Stage.create({ objects: objects(["local1"]), config: SERVED });
  const a = ADDRESSES[4];
  const close = stage.network.serve(NODE, {
    protocol: "tcp",
    port: NODE_PORT,
    address: a.loopback,
  });
  await using signpost = await stage.startSynced();
  const metric = `${METRIC}_listener_creation_failures_total{ip_family="IPv4"}`;
  await signpost.until("the failure", async () => await stage.metric(metric) > 0);
  await stage.flowsBecome(signpost, [localFlow(ADDRESSES[6], { reaches: ["local1"] })]);
  assertEquals(await hostSeen(stage.network, a), NODE);
  await signpost.waitForLog(/finding=localhost-node-port-taken where=127.0.0.1:30080/);
  close();
  await stage.flowsBecome(signpost, [localFlow(a, { reaches: ["local1"] })]);
  assertEquals(signpost.log.match(/finding=localhost-node-port-taken/g)?.length, 1);
});

test("a reload keeps connections and listeners on loopback, a stop closes them", async () => {
  await using stage = await Stage.create({ objects: objects(["local1"]), config: SERVED });
  await using signpost = await stage.startSynced();
  await listeners(stage, signpost, 1);
  const { loopback: address } = ADDRESSES[4];
  using connection = await stage.network.stay({
    from: NODE,
    source: address,
    address,
    port: NODE_PORT,
    timeout: 10_000,
  }).then((each) => ({ ...each, [Symbol.dispose]: () => each.close() }));
  const reload = async (config: Manifest) => {
    const reloads = signpost.log.match(/was read again/g)?.length ?? 0;
    await stage.configure(config);
    signpost.kill("SIGHUP");
    await signpost.until(
      "the reload",
      () => (signpost.log.match(/was read again/g)?.length ?? 0) > reloads,
    );
  };
  await reload({ ...SERVED, configSyncPeriod: "10m" });
  await listeners(stage, signpost, 1);
  assertEquals(await connection.exchange("one"), "one");
  assertEquals(signpost.log.match(/opened node port on loopback/g)?.length, 2);
  await reload({});
  await listeners(stage, signpost, 0);
  assertEquals(await connection.exchange("two"), "two");
  await signpost.stop();
  await assertRejects(() => connection.exchange("three"));
});

test("a connection on loopback outlives the endpoints of its Service", async () => {
  await using stage = await Stage.create({ objects: objects(["local1"]), config: SERVED });
  await using signpost = await stage.startSynced();
  await listeners(stage, signpost, 1);
  const a = ADDRESSES[4];
  const connection = await stage.network.stay({
    from: NODE,
    source: a.loopback,
    address: a.loopback,
    port: NODE_PORT,
    timeout: 10_000,
  });
  stage.apply(...both((a) => [slice(a, [], { service: nameOf(a) })]));
  await listeners(stage, signpost, 0);
  assertEquals(await connection.exchange("one"), "one");
  stage.remove("Service", `shop/${nameOf(a)}`);
  await signpost.until(
    "the end of the connection",
    () => connection.exchange("two").then(() => false, () => true),
  );
  connection.close();
});

test("status, explain and verify know the listeners on loopback", async () => {
  await using stage = await Stage.create({ objects: objects(ENDPOINTS), config: SERVED });
  await using signpost = await stage.startSynced(stage.socket);
  await listeners(stage, signpost, 1);
  const run = async (...words: readonly string[]) => {
    const { code, stdout, stderr } = await runSignpost(stage.network, [...words, ...stage.args]);
    return { code, text: stdout || stderr };
  };
  const status = await stage.ask("status");
  assertMatch(status.stdout, /on loopback +2 listeners, 0 connections/);
  const { loopback } = ADDRESSES[6];
  const packet = await run("explain", "--from", "node", `[${loopback}]:${NODE_PORT}`);
  assertMatch(packet.text, /goes to a listener of signpost/);
  assertEquals(packet.code, 0, packet.text);
  assertMatch(
    (await run("explain", "shop/web4")).text,
    /127\.0\.0\.1:30080 .* 2 endpoints, by a listener/,
  );
  assertEquals((await run("verify")).code, 0);
  await signpost.stop();
  const missing = await run("verify");
  assertEquals(missing.code, 1);
  assertMatch(missing.text, /listeners on loopback\n +missing +127\.0\.0\.1:30080/);
});

for (const how of ["reload", "restart"] as const) {
  test(`a node port on loopback is served after a ${how} that names loopback`, async () => {
    const config = { featureGates: { KubeProxyNFTablesLocalhostNodePorts: true } };
    await using stage = await Stage.create({ objects: objects(ENDPOINTS), config });
    await using before = await stage.startSynced();
    await stage.flowsBecome(before, bothFlows((a) => [localFlow(a, { reaches: "reject" })]));
    await stage.configure({ ...config, ...SERVED });
    if (how === "reload") before.kill("SIGHUP");
    else await before.stop();
    await using after = how === "reload" ? undefined : await stage.startSynced();
    const signpost = after ?? before;
    await stage.flowsBecome(
      signpost,
      bothFlows((a) => [
        localFlow(a, { reaches: ENDPOINTS }),
        localFlow(a, { reaches: "reject", protocols: ["udp"] }),
      ]),
    );
    const { code, stdout } = await runSignpost(stage.network, ["verify", ...stage.args]);
    assertEquals(code, 0, stdout);
  });
}

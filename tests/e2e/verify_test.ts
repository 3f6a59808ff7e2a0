/** Nodes that were broken by hand, and what `signpost verify` and `signpost status` say of them. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { ServiceReport } from "../../lib/explain/report.ts";
import type { Status } from "../../lib/model/status.ts";
import type { Verification } from "../../lib/model/kernel/differences.ts";
import { renderedDocument } from "../support/browser.ts";
import type { DiffReport } from "../../lib/cli/diff.ts";
import type { Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { writeInput } from "./case.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { installKubeProxy } from "./kube_proxy.ts";
import { both, bothFlows, METRICS_PORT, Stage, type StageOptions, syncs } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("verify, explain and diff");

const FOUR = ADDRESSES[4];

/** A Service of each family with two endpoints and a node port. */
const OBJECTS = both((a) => [
  service(a, { name: `web${a.family}`, spec: { type: "NodePort", ...nodePorts(a.family) } }),
  slice(a, ["local1", "remote1"], { service: `web${a.family}` }),
]);

function nodePorts(family: 4 | 6) {
  const ports = ["TCP", "UDP"].map((protocol, i) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: 80,
    nodePort: 30_000 + 10 * family + i,
  }));
  return { ports };
}

const FLOWS = bothFlows((a) => [{ from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] }]);

function createStage(options: StageOptions = {}): Promise<Stage> {
  return Stage.create({ objects: OBJECTS, ...options });
}

/** Starts the daemon at the stage's socket. */
function start(stage: Stage, ...args: readonly string[]): Promise<Signpost> {
  return stage.startSynced([...stage.socket, ...args]);
}

/** Returns the exit code and the report of `verify`. */
async function verify(stage: Stage, ...words: readonly string[]): Promise<[number, Verification]> {
  const { code, stdout, stderr } = await stage.run("verify", "-o", "json", ...words);
  assert(stdout !== "", stderr);
  return [code, JSON.parse(stdout)];
}

test("on the node, explain and verify without flags have the daemon's configuration", async () => {
  await using stage = await createStage();
  await using _signpost = await start(stage);
  const { code, stdout, stderr } = await stage.ask("verify");
  assertEquals([code, /^signpost: with the configuration of the running daemon/.test(stderr)], [
    0,
    true,
  ]);
  assertMatch(stdout, /the kernel has the desired rules/);
  const packet = ["explain", "--from", "node", "to", `${FOUR.clusterIP}:80`];
  const delivered = await stage.ask(...packet);
  assertEquals([delivered.code, /is delivered/.test(delivered.stdout)], [0, true]);
});

test("explain, verify and diff have the daemon's objects while the API server is away", async () => {
  await using stage = await createStage();
  await using _signpost = await start(stage);
  await stage.api.stop();
  const explained = await stage.ask("explain", "shop/web4", "-o", "json");
  const { objects, status, ports, kernel }: ServiceReport = JSON.parse(explained.stdout);
  assertEquals(
    [objects.from, status?.state, status?.sync, kernel.state, ports.length],
    ["daemon", "applied", { number: 1, kind: "full" }, "same", 2],
  );
  const verified = await stage.ask("verify", "-o", "json");
  const { same, objects: { from } }: Verification = JSON.parse(verified.stdout);
  assertEquals([verified.code, same, from], [0, true, "daemon"]);
  await using files = await writeInput({
    objects: [slice(FOUR, ["local1"], { service: "web4" })],
    config: {},
  });
  const diffed = await stage.ask("diff", "--manifests", files.manifests, "-o", "json");
  const { present, changes }: DiffReport = JSON.parse(diffed.stdout);
  assertEquals([diffed.code, present.from, changes.length > 0], [1, "daemon", true]);
});

test("diff shows what a manifest would change in the kernel", async () => {
  await using stage = await createStage();
  await using signpost = await start(stage);
  const fewer = slice(FOUR, ["local1"], { service: "web4" });
  await using files = await writeInput({ objects: [fewer], config: {} });
  const diff = async () => {
    const { code, stdout } = await stage.ask("diff", "--manifests", files.manifests, "-o", "json");
    const { changes }: DiffReport = JSON.parse(stdout);
    return { code, changes };
  };
  const before = await stage.table();
  const { code, changes } = await diff();
  assertEquals(code, 1);
  assertEquals(
    changes.filter(({ in: set, key }) =>
      set === "endpoints-tcp4" && key.startsWith(`${FOUR.clusterIP} `)
    ).map(({ change, key, service }) => `${change} ${key} ${service}`),
    [`delete ${FOUR.clusterIP} . 80 . 1 shop/web4:tcp`],
  );
  assertEquals(await stage.table(), before);
  // The changes that diff names are those that the daemon makes.
  stage.apply(fewer);
  await signpost.until("a partial sync", () => syncs(signpost, "partial") > 0);
  assertEquals(await diff(), { code: 0, changes: [] });
});

test("explain does not say that a packet is delivered where the kernel differs", async () => {
  await using stage = await createStage();
  {
    await using signpost = await start(stage);
    await stage.flowsBecome(signpost, FLOWS);
  }
  const element = `services4 { ${FOUR.clusterIP} . tcp . 80 }`;
  await stage.network.applyNft(`delete element inet signpost ${element}`);
  const packet = ["explain", "--from", "pod", "10.244.0.9", "to", `${FOUR.clusterIP}:80`];
  const said = await stage.run(...packet);
  assertMatch(said.stdout, /^Packet from \S+ to \S+ should be delivered, but the kernel differs\n/);
  const { summary } = JSON.parse((await stage.run(...packet, "-o", "json")).stdout);
  assertEquals([said.code, summary], [1, "should be delivered, but the kernel differs"]);
});

for (const mode of ["nftables", "iptables"] as const) {
  test(`verify finds nothing after partial syncs in ${mode} mode`, async () => {
    await using stage = await createStage({ config: { mode } });
    await using signpost = await start(stage);
    for (const hosts of [["remote2"], ["remote1", "local1", "local2"], []] as const) {
      stage.apply(...both((a) => [slice(a, hosts, { service: `web${a.family}` })]));
      const before = syncs(signpost, "partial");
      await signpost.until("a partial sync", () => syncs(signpost, "partial") > before);
      const [code, report] = await verify(stage);
      assertEquals([code, report.differences], [0, []]);
      assertEquals([report.mode, report.services], [mode, 2]);
    }
  });
}

for (const mode of ["nftables", "iptables"] as const) {
  test(`verify lists what the daemon holds back, in ${mode} mode`, async () => {
    await using stage = await createStage({ config: { mode } });
    await using signpost = await start(stage, "--max-service-cost", "20");
    const grown = service(FOUR, {
      name: "web4",
      spec: { externalIPs: Array.from({ length: 20 }, (_, i) => `192.9.0.${i}`) },
    });
    stage.apply(grown, slice(FOUR, ["remote2"], { service: "web4" }));
    await signpost.waitForLog(/shop\/web4.*--max-service-cost/);
    await signpost.until("a verify that says so", async () => {
      const [code, { heldBack, same }] = await verify(stage, "--max-service-cost", "20");
      return code === 0 && same && heldBack.length === 1;
    });
    const { stdout } = await stage.run("verify", "--max-service-cost", "20");
    assertMatch(
      stdout,
      /the kernel has the desired rules\n[^]*held back.*\n {2}shop\/web4 {2}it costs/,
    );
  });
}

test("--fix has the daemon put back what it has not noticed itself", async () => {
  await using stage = await createStage({ config: { mode: "iptables" } });
  await using signpost = await start(stage);
  const { network } = stage;
  // The daemon looks at the rules every 30 s.
  await network.run(NODE, ["iptables", "-t", "nat", "-F", "KUBE-NODEPORTS"]);
  const [code, { differences }] = await verify(stage);
  assertEquals(code, 1);
  assertEquals(
    differences.map(({ type, in: chain, service }) => ({ type, chain, service })),
    ["tcp", "udp"].map((protocol) => ({
      type: "missing" as const,
      chain: "iptables nat KUBE-NODEPORTS",
      service: `shop/web4:${protocol}`,
    })),
  );
  const before = syncs(signpost, "full");
  const [fixed, { fix }] = await verify(stage, "--fix");
  assertEquals([fixed, fix?.result], [0, "fixed"]);
  assertMatch(
    fix?.message ?? "",
    /^the daemon has made a full sync \(\d+ operations in .*\); the kernel now has the desired rules$/,
  );
  assertEquals(syncs(signpost, "full"), before + 1);
  assertEquals((await verify(stage))[0], 0);
});

for (const mode of ["nftables", "iptables"] as const) {
  test(`verify names a kube-proxy that writes its ${mode} rules beside ours`, async () => {
    await using stage = await createStage();
    {
      // A daemon that has just begun removes them.
      await using _ = await start(stage);
    }
    assertEquals((await verify(stage))[0], 0);
    await installKubeProxy(stage.network, { mode });
    const [code, { same, differences, otherProxies }] = await verify(stage);
    assertEquals([code, same, differences], [1, false, []]);
    const expected = mode === "nftables" ? /^table ip6? kube-proxy$/ : /ip6?tables-nft/;
    assertEquals(otherProxies.length > 0, true);
    for (const other of otherProxies) assertMatch(other, expected);
    assertMatch((await stage.run("verify")).stdout, /another proxy has rules on this node/);
  });
}

test("status tells of watches, syncs, refused objects and conflicts", async () => {
  await using stage = await createStage();
  stage.apply(
    service(FOUR, { name: "late", created: "2025-01-01T00:00:00Z" }),
    service(FOUR, { name: "bad", spec: { clusterIP: "10.96.0.77", ports: [{ port: 70_000 }] } }),
  );
  await using _ = await start(stage);
  const { code, stdout } = await stage.run("status", "-o", "json");
  assertEquals(code, 0);
  const status: Status = JSON.parse(stdout);
  assertEquals([status.mode, status.node, status.healthy], ["nftables", "node1", true]);
  assertEquals(status.watches.map(({ kind, state }) => `${kind} ${state}`), [
    "Service watching",
    "EndpointSlice watching",
    "Node watching",
    "ServiceCIDR watching",
  ]);
  assertEquals(status.syncs.map(({ kind }) => kind).includes("full"), true);
  assertEquals(status.refused.map(({ kind, key }) => `${kind} ${key}`), ["Service shop/bad"]);
  assertEquals(status.conflicts.map(({ holder, loser }) => `${holder} ${loser}`), [
    "shop/web4 shop/late",
    "shop/web4 shop/late",
  ]);
  const table = (await stage.run("status")).stdout;
  assertMatch(table, /^signpost \S+.* on node1: healthy$/m);
  assertMatch(table, /^Service +watching +\d+ /m);
});

test("a browser on the node shows the daemon's page with the Services that it serves", async () => {
  await using stage = await createStage();
  await using signpost = await start(stage);
  await signpost.until("the page", () => stage.get("/", METRICS_PORT));
  const document = await renderedDocument(`http://127.0.0.1:${METRICS_PORT}/?q=web4`, {
    time: 2_000,
    namespace: stage.network.namespaceOf(NODE),
  });
  assertMatch(document, /<h1 id="name">signpost on node1<\/h1>/);
  assertMatch(document, />10\.96\.0\.10:80\/tcp cluster IP</);
  assertEquals([...document.matchAll(/<h3>([^<]*)</g)].map(([, name]) => name), ["shop/web4"]);
});

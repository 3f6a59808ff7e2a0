import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { CheckReport } from "../../lib/cli/check.ts";
import type { Status } from "../../lib/model/status.ts";
import { FORWARDING } from "../../lib/findings/system.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { DATA_PATH } from "../../lib/observe/endpoints.ts";
import type { PageData } from "../../lib/observe/page/data.ts";
import { sideBySide } from "../support/side_by_side.ts";
import type { Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, NODE_PORT, PORT, service, slice } from "./cluster.ts";
import { installKubeProxy } from "./kube_proxy.ts";
import { HEALTH_PORT, METRICS_PORT, Stage } from "./stage.ts";

const test = sideBySide("all reports of a problem agree");

const a = ADDRESSES[4];
const WEB = [service(a), slice(a, ["local1"])];

/** Waits until log, `check`, `status`, page and metric have a finding, then returns the exit codes of both commands. */
async function assertReported(
  { stage, signpost, id }: {
    readonly stage: Stage;
    readonly signpost: Signpost;
    readonly id: string;
  },
): Promise<readonly [check: number, status: number]> {
  await signpost.waitForLog(new RegExp(` finding=${id} `), 120_000);
  const { body } = await stage.get("/metrics", METRICS_PORT);
  assertMatch(body, new RegExp(`^signpost_node_findings\\{id="${id}",.*\\} 1$`, "m"));
  const status = await stage.run("status", "-o", "json");
  const { findings } = JSON.parse(status.stdout) as Status;
  const what = findings.find((each) => each.id === id)?.what;
  const check = await stage.run("check", "-o", "json");
  const report = JSON.parse(check.stdout) as CheckReport;
  assertEquals(report.findings.find((each) => each.id === id)?.what, what);
  const page = JSON.parse((await stage.get(DATA_PATH, METRICS_PORT)).body) as PageData;
  const rows = [...page.problems.flatMap(({ rows }) => rows), ...page.notes.rows];
  assertEquals(rows.filter(([first]) => first === `${what} [${id}]`).length, 1);
  return [check.code, status.code];
}

test("a node that is cut off from its API server", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced(stage.socket);
  await stage.api.stop();
  assertEquals(await assertReported({ stage, signpost, id: "api-server-unreachable" }), [2, 1]);
  const { stdout } = await stage.run("status");
  const [head = ""] = stdout.split("\n");
  assertMatch(head, /: healthy rules, but cut off from the API server for \d+[sm] \(.+\)$/);
  const explained = await stage.ask("explain", "shop/web");
  assertMatch(explained.stdout, /works here/);
  assertMatch(explained.stderr, /the daemon's objects are as of \d+[sm] ago/);
  const page = await stage.get(DATA_PATH, METRICS_PORT);
  assertStringIncludes(page.body, "healthy rules, but cut off from the API server for ");
  for (const path of ["/healthz", "/readyz"]) {
    assertEquals((await stage.get(path, HEALTH_PORT)).status, 200);
  }
  await stage.api.start();
  await signpost.waitForLog(/a finding is gone finding=api-server-unreachable/);
  assertEquals((await stage.run("status")).code, 0);
});

/** Returns the first line of `explain`. */
async function explain(stage: Stage, ...args: readonly string[]): Promise<string> {
  return (await stage.run("explain", ...args)).stdout.split("\n")[0] ?? "";
}

for (const family of FAMILIES) {
  test(`a kernel that does not forward IPv${family}`, async () => {
    const own = ADDRESSES[family];
    const setting = FORWARDING[family];
    await using stage = await Stage.create({ objects: [service(own), slice(own, ["local1"])] });
    await using signpost = await stage.startSynced(stage.socket);
    const flow = { from: "pod", to: own.clusterIP } as const;
    await stage.flowsBecome(signpost, [{ ...flow, reaches: ["local1"] }]);
    await stage.network.run(NODE, ["sysctl", "-q", "-w", `${setting}=0`]);
    await stage.flowsBecome(signpost, [{ ...flow, reaches: "drop" }]);
    assertEquals(await assertReported({ stage, signpost, id: "forwarding-off" }), [2, 1]);
    const said = `${setting} is 0: this node forwards no IPv${family} packets to pods`;
    const packet = `${hostPort(own.clusterIP, PORT)}/tcp`;
    assertStringIncludes(await explain(stage, "--from", "pod", "to", packet), said);
    assertStringIncludes((await stage.run("explain", "shop/web")).stdout, said);
    assertMatch(await explain(stage, "--from", "node", "to", packet), /is delivered/);
    await stage.network.run(NODE, ["sysctl", "-q", "-w", `${setting}=1`]);
    await stage.flowsBecome(signpost, [{ ...flow, reaches: ["local1"] }]);
    await signpost.waitForLog(/a finding is gone finding=forwarding-off/, 120_000);
  });
}

const OWN_PORTS = [["healthz", HEALTH_PORT], ["metrics", METRICS_PORT]] as const;
for (const [name, port] of OWN_PORTS) {
  test(`a program that has the ${name} port`, async () => {
    await using stage = await Stage.create({ objects: WEB });
    const close = stage.network.serve(NODE, { protocol: "tcp", port, address: "127.0.0.1" });
    await using signpost = await stage.startSynced(stage.socket);
    if (name === "healthz") {
      assertEquals(await assertReported({ stage, signpost, id: "own-port-taken" }), [2, 1]);
    }
    await signpost.waitForLog(/ finding=own-port-taken /);
    const { stdout, code } = await stage.run("status");
    assertEquals(code, 1);
    assertMatch(stdout, new RegExp(`^error ${name} server: cannot listen on .*:${port}: `, "m"));
    close();
    await signpost.waitForLog(/a finding is gone finding=own-port-taken/);
    assertEquals(signpost.log.match(/cannot listen on/g)?.length, 1);
    assertEquals((await stage.run("status")).code, 0);
  });
}

for (const mode of ["nftables", "iptables"] as const) {
  test(`pods outside of clusterCIDR, ${mode}`, async () => {
    const spec = { type: "LoadBalancer", externalTrafficPolicy: "Local" };
    const objects = [
      service(a, { spec, ingress: [{ ip: a.loadBalancer }] }),
      slice(a, ["remote1"]),
    ];
    const config = { mode, clusterCIDR: "10.250.0.0/16" };
    await using stage = await Stage.create({ objects, config });
    await using signpost = stage.start(stage.socket);
    const to = a.loadBalancer;
    await stage.flowsBecome(signpost, [
      { from: "node", to, reaches: ["remote1"], masqueraded: true },
      { from: "pod", to, reaches: "drop" },
    ]);
    const id = "pod-cidr-outside-detected-range";
    assertEquals(await assertReported({ stage, signpost, id }), [1, 0]);
    const { stdout } = await stage.run("explain", "shop/web");
    assertMatch(
      stdout,
      new RegExp(`^ +${a.loadBalancer}:80 +loadBalancerIP +Local +dropped: none`, "m"),
    );
    assertStringIncludes(stdout, `the podCIDR ${a.podCIDR} of this node is not inside of`);
    const packet = `${hostPort(a.loadBalancer, PORT)}/tcp`;
    assertMatch(await explain(stage, "--from", "pod", "to", packet), /is dropped/);
  });
}

/** Rules of Docker that publish the node port of `shop/web`. */
function publishing(program: string): string {
  return `${program} -t nat -N DOCKER
${program} -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
${program} -t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport ${NODE_PORT} -j DNAT --to-destination 172.17.0.2:80`;
}

for (
  const [mode, program] of [
    ["nftables", "iptables"],
    ["nftables", "iptables-legacy"],
    ["iptables", "iptables"],
    ["iptables", "iptables-legacy"],
  ] as const
) {
  test(`a published port that is a node port, ${program} beside ${mode} mode`, async () => {
    const objects = [service(a, { spec: { type: "NodePort" } }), slice(a, ["local1"])];
    await using stage = await Stage.create({ objects, config: { mode } });
    await using signpost = stage.start(stage.socket);
    const flow = { from: "client", to: a.node, port: NODE_PORT, protocols: ["tcp"] } as const;
    const served = [{ ...flow, reaches: ["local1"], masqueraded: true }] as const;
    await stage.flowsBecome(signpost, served);
    await stage.network.run(NODE, ["sh", "-ec", publishing(program)]);
    // In the hook of the same priority, the older program of the two variants decides.
    if (mode === "nftables" || program === "iptables") await stage.flowsBecome(signpost, served);
    const id = "published-port-is-node-port";
    const [check] = await assertReported({ stage, signpost, id });
    assertEquals(check, 1);
    const table = program === "iptables" ? "ip nat" : `${program} nat`;
    assertStringIncludes(
      (await stage.run("explain", "shop/web")).stdout,
      `chain DOCKER of table ${table} (Docker) sends tcp port ${NODE_PORT} to 172.17.0.2:80, and ` +
        "it is the node port of shop/web",
    );
  });
}

test("rules of an old kube-proxy that are restored beside nftables mode", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced(stage.socket);
  await signpost.until("no rival yet", async () => (await stage.run("check")).code === 0);
  await installKubeProxy(stage.network, { mode: "iptables" });
  // The next look, which `check` asks for, finds them.
  assertStringIncludes((await stage.run("check")).stdout, "[another-proxy]");
  assertEquals(await assertReported({ stage, signpost, id: "another-proxy" }), [1, 0]);
  const { stdout } = await stage.run("explain", "shop/web");
  assertStringIncludes(stdout, "the kernel also has rules of kube-proxy");
});

/** Commands of another program that change all of signpost's rules, or some of them. */
const DAMAGES = [
  "for p in $PROGRAM $PROGRAM6; do for t in nat filter mangle; do $p -t $t -F; $p -t $t -X; done; done",
  "$PROGRAM -t nat -F KUBE-SERVICES",
  "$PROGRAM-save -t filter | grep -v KUBE-EXTERNAL-SERVICES | $PROGRAM-restore -T filter",
];

for (const variant of ["nft", "legacy"]) {
  test(`rules that another program has changed since the last look, iptables-${variant}`, async () => {
    const [program, program6] = [`iptables-${variant}`, `ip6tables-${variant}`];
    // No look but that of `check` comes in time.
    const iptables = { minSyncPeriod: "50ms", syncPeriod: "10m" };
    await using stage = await Stage.create({
      objects: WEB,
      config: { mode: "iptables", iptables },
    });
    const shell = (script: string) =>
      stage.network.run(NODE, [
        ...["env", `PROGRAM=${program}`, `PROGRAM6=${program6}`, "sh", "-ec", script],
      ]);
    await shell("$PROGRAM -t mangle -N KUBE-IPTABLES-HINT");
    await using signpost = stage.start(stage.socket);
    const flows = [{
      from: "pod",
      to: a.clusterIP,
      protocols: ["tcp"],
      reaches: ["local1"],
    }] as const;
    await stage.flowsBecome(signpost, flows);
    const whole = await shell("$PROGRAM-save | grep -c '^-A KUBE-'");
    assertEquals((await stage.run("check")).code, 0);
    for (const [i, damage] of DAMAGES.entries()) {
      const said = signpost.log.length;
      await shell(damage);
      const { stdout, code } = await stage.run("check");
      assertMatch(stdout, /^error another program has changed our rules: .*\[rules-changed\]/m);
      assertEquals(code, 2);
      await signpost.until(
        "the repair",
        () => /a finding is gone finding=rules-changed/.test(signpost.log.slice(said)),
      );
      const log = signpost.log.slice(said);
      assertEquals(log.match(/WARN another program has changed our rules/g)?.length, 1);
      assertEquals(log.match(/ finding=rules-changed /g)?.length, 2);
      await stage.flowsBecome(signpost, flows);
      assertEquals(await shell("$PROGRAM-save | grep -c '^-A KUBE-'"), whole);
      assertEquals(await stage.metric("signpost_drift_repairs_total"), i + 1);
      const status = await stage.run("status", "-o", "json");
      const { findings, driftRepairs } = JSON.parse(status.stdout) as Status;
      assertEquals([findings.some(({ id }) => id === "rules-changed"), driftRepairs], [
        false,
        i + 1,
      ]);
      assertEquals([(await stage.run("check")).code, status.code], [0, 0]);
    }
  });
}

for (const mode of ["nftables", "iptables"] as const) {
  test(`a firewall that drops, ${mode}`, async () => {
    await using stage = await Stage.create({ objects: WEB, config: { mode } });
    await using signpost = stage.start(stage.socket);
    const flow = { from: "pod", to: a.clusterIP, protocols: ["tcp"] } as const;
    await stage.flowsBecome(signpost, [{ ...flow, reaches: ["local1"] }]);
    await stage.network.applyNft(`table inet host {
  chain forward {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
    iifname "docker0" oifname != "docker0" accept
  }
}
`);
    await stage.flowsBecome(signpost, [{ ...flow, reaches: "drop" }]);
    const id = "firewall-drops-services";
    assertEquals(await assertReported({ stage, signpost, id }), [1, 0]);
    const said = "but table inet host drops it (chain forward)";
    const packet = ["--from", "pod", "to", `${a.clusterIP}:${PORT}/tcp`];
    assertStringIncludes(await explain(stage, ...packet), said);
    // By the name of a pod that is an endpoint.
    assertStringIncludes(await explain(stage, "shop/local1", "to", "shop/web:80/tcp"), said);
    assertStringIncludes((await stage.run("explain", "shop/web")).stdout, `[${id}]`);
  });
}

test("an endpoint that is a cluster IP", async () => {
  const endpoints = [{ addresses: [a.clusterIP2], conditions: { ready: true } }];
  const objects = [service(a), { ...slice(a, []), endpoints }];
  await using stage = await Stage.create({ objects });
  await using signpost = await stage.startSynced(stage.socket);
  const flow = { from: "pod", to: a.clusterIP, protocols: ["tcp"] } as const;
  // The node's default route leads there.
  await stage.flowsBecome(signpost, [{ ...flow, reaches: "world" }]);
  assertEquals(await assertReported({ stage, signpost, id: "service-cidr-overlaps" }), [1, 0]);
  const packet = ["--from", "pod", "to", `${a.clusterIP}:${PORT}/tcp`];
  const said = `the endpoint ${a.clusterIP2} is in the range of cluster IPs (${a.serviceCIDR})`;
  assertStringIncludes(await explain(stage, ...packet), `should be delivered, but ${said}`);
  assertStringIncludes((await stage.run("explain", "shop/web")).stdout, said);
});

test("ServiceCIDRs that may not be read", async () => {
  const resources = ["services", "nodes", "endpointslices"];
  const verbs = ["list", "watch"];
  const rules = [{ apiGroups: ["", "discovery.k8s.io"], resources, verbs }];
  await using stage = await Stage.create({ objects: WEB, api: { rules } });
  await using signpost = await stage.startSynced(stage.socket);
  const id = "optional-objects-refused";
  assertEquals(await assertReported({ stage, signpost, id }), [0, 0]);
  assertEquals(signpost.log.match(/(?:INFO|WARN) .*ServiceCIDR/g)?.length, 1, signpost.log);
  assertMatch(await explain(stage, "shop/web"), /works here/);
});

test("an API server that takes a second and more for each answer", async () => {
  await using stage = await Stage.create({ objects: WEB, api: { delay: 1_200 } });
  await using _signpost = await stage.startSynced(stage.socket);
  assertEquals((await stage.run("status")).code, 0);
  // On a busy machine it may take three seconds, which is worth a warning.
  assertEquals((await stage.run("check")).stdout.includes("error "), false);
  const page = JSON.parse((await stage.get(DATA_PATH, METRICS_PORT)).body) as PageData;
  assertEquals([page.problems, page.summary], [[], "No node problems."]);
  const { body } = await stage.get("/metrics", METRICS_PORT);
  assertEquals(/^signpost_node_findings\{id="api-.*\} 1$/m.test(body), false);
  assertMatch(await explain(stage, "shop/web"), /works here/);
});

test("a Service that wants a port where a program of this node listens", async () => {
  const objects = [service(a, { spec: { externalIPs: [a.node] } }), slice(a, ["local1"])];
  await using stage = await Stage.create({ objects });
  stage.network.serve(NODE, { protocol: "tcp", port: PORT, address: a.node });
  await using signpost = await stage.startSynced(stage.socket);
  const flow = {
    from: "client",
    to: a.node,
    port: PORT,
    targetPort: PORT,
    protocols: ["tcp"],
  } as const;
  await stage.flowsBecome(signpost, [{ ...flow, reaches: ["node"] }]);
  const said = "a program of this node";
  await signpost.waitForLog(new RegExp(`WARN .*shop/web.*${said}`));
  assertStringIncludes((await stage.run("status")).stdout, said);
  assertStringIncludes((await stage.run("check")).stdout, "no node problems; 1 conflict");
  assertStringIncludes((await stage.run("explain", "shop/web")).stdout, said);
  const page = JSON.parse((await stage.get(DATA_PATH, METRICS_PORT)).body) as PageData;
  assertEquals(page.problems.map(({ title }) => title), ["1 conflict"]);
  assertEquals(await stage.metric("signpost_vip_conflicts"), 1);
});

test("packets between pods of a bridge that meet no connection tracking", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced(stage.socket);
  const bridge = `ip link add cni0 type bridge
ip addr add ${a.podCIDR.replace(/0\//, "1/")} dev cni0
ip link set cni0 up
sysctl -q -w net.bridge.bridge-nf-call-iptables=0`;
  await stage.network.run(NODE, ["sh", "-ec", bridge]);
  await signpost.until("a finding", async () => (await stage.run("check")).code === 2);
  assertEquals(await assertReported({ stage, signpost, id: "bridge-filter-off" }), [2, 1]);
  const said = "net.bridge.bridge-nf-call-iptables is not 1";
  const packet = ["--from", "pod", "to", `${a.clusterIP}:${PORT}/tcp`];
  assertStringIncludes(await explain(stage, ...packet), `should be delivered, but ${said}`);
  assertStringIncludes((await stage.run("explain", "shop/web")).stdout, said);
});

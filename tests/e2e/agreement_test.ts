import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { CheckReport } from "../../lib/cli/check.ts";
import type { Status } from "../../lib/model/status.ts";
import { FORWARDING } from "../../lib/findings/system.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { DATA_PATH } from "../../lib/observe/endpoints.ts";
import type { PageData } from "../../lib/observe/page/data.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { runSignpost, type Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, PORT, service, slice } from "./cluster.ts";
import { HEALTH_PORT, METRICS_PORT, Stage } from "./stage.ts";

const test = sideBySide("all reports of a problem agree");

const a = ADDRESSES[4];
const WEB = [service(a), slice(a, ["local1"])];

/** Runs a command that asks the daemon of a stage. */
async function ask(stage: Stage, ...args: readonly string[]) {
  const { code, stdout } = await runSignpost(stage.network, [
    ...args,
    ...args[0] === "status" ? [] : stage.args,
    ...stage.socket,
  ]);
  return { code, stdout };
}

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
  const status = await ask(stage, "status", "-o", "json");
  const { findings } = JSON.parse(status.stdout) as Status;
  const what = findings.find((each) => each.id === id)?.what;
  const check = await ask(stage, "check", "-o", "json");
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
  const { stdout } = await ask(stage, "status");
  const [head = ""] = stdout.split("\n");
  assertMatch(
    head,
    /: healthy rules, but cut off from the API server for \d+[sm] \(.+\)$/,
  );
  const page = await stage.get(DATA_PATH, METRICS_PORT);
  assertStringIncludes(page.body, "healthy rules, but cut off from the API server for ");
  for (const path of ["/healthz", "/readyz"]) {
    assertEquals((await stage.get(path, HEALTH_PORT)).status, 200);
  }
  await stage.api.start();
  await signpost.waitForLog(/a finding is gone finding=api-server-unreachable/);
  assertEquals((await ask(stage, "status")).code, 0);
});

/** Returns the first line of `explain`. */
async function explain(stage: Stage, ...args: readonly string[]): Promise<string> {
  return (await ask(stage, "explain", ...args)).stdout.split("\n")[0] ?? "";
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
    assertStringIncludes((await ask(stage, "explain", "shop/web")).stdout, said);
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
    const { stdout, code } = await ask(stage, "status");
    assertEquals(code, 1);
    assertMatch(stdout, new RegExp(`^error ${name} server: cannot listen on .*:${port}: `, "m"));
    close();
    await signpost.waitForLog(/a finding is gone finding=own-port-taken/);
    assertEquals(signpost.log.match(/cannot listen on/g)?.length, 1);
    assertEquals((await ask(stage, "status")).code, 0);
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
    const { stdout } = await ask(stage, "explain", "shop/web");
    assertMatch(
      stdout,
      new RegExp(`^ +${a.loadBalancer}:80 +loadBalancerIP +Local +dropped: none`, "m"),
    );
    assertStringIncludes(stdout, `the podCIDR ${a.podCIDR} of this node is not inside of`);
    const packet = `${hostPort(a.loadBalancer, PORT)}/tcp`;
    assertMatch(await explain(stage, "--from", "pod", "to", packet), /is dropped/);
  });
}

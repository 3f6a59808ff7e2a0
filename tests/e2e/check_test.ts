import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { CheckReport } from "../../lib/cli/check.ts";
import type { ApiServerOptions } from "../support/api_server.ts";
import { execute } from "../support/command.ts";
import { runSignpost, signpostCommand } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { Stage } from "./stage.ts";

const a = ADDRESSES[4];
const OBJECTS = [service(a), slice(a, ["local1"])];

/** Runs `signpost check` in the node of a stage; its report and exit code. */
async function check(
  stage: Stage,
  ...more: readonly string[]
): Promise<readonly [CheckReport, number]> {
  const args = ["check", ...stage.args, ...more, "-o", "json"];
  const { code, stdout, stderr } = await runSignpost(stage.network, args);
  if (stdout === "") throw new Error(stderr);
  return [JSON.parse(stdout) as CheckReport, code];
}

function idsOf({ findings }: CheckReport): string[] {
  return findings.map(({ id, severity }) => `${severity} ${id}`);
}

Deno.test("a node on which signpost can work has no findings", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  const [report, code] = await check(stage);
  assertEquals([idsOf(report), code], [[], 0]);
  assertEquals([report.mode, report.daemon, report.objects], ["nftables", false, true]);
  assertEquals(await stage.network.run(NODE, ["nft", "list", "ruleset"]), "");
});

Deno.test("a node without a configuration is checked without an API server", async () => {
  await using stage = await Stage.create({});
  const args = ["check", "--cluster-cidr=10.244.0.0/16", "--socket=/nowhere"];
  const { code, stdout, stderr } = await runSignpost(stage.network, args);
  assertEquals([stderr, code], ["", 0]);
  assertStringIncludes(stdout, "API server  not asked, no --kubeconfig is set\n");
  assertStringIncludes(stdout, "objects     not read");
});

Deno.test("a kernel setting that the start makes is not a finding before it", async () => {
  const config = { mode: "iptables", nodePortAddresses: ["0.0.0.0/0", "::/0"] };
  await using stage = await Stage.create({ objects: OBJECTS, config });
  const [report, code] = await check(stage);
  assertEquals([idsOf(report), code], [["info mode-without-need"], 0]);
});

Deno.test("an API server that cannot be reached is an error", async () => {
  await using stage = await Stage.create({ config: { mode: "iptables" } });
  await stage.api.stop();
  const [report, code] = await check(stage);
  assertEquals([idsOf(report), code], [[
    "error api-server-unreachable",
    "info mode-without-need",
  ], 2]);
  assertEquals(report.objects, false);
});

Deno.test("an API server that says nothing does not keep check", async () => {
  await using stage = await Stage.create();
  stage.api.faults.add({ type: "stall", count: 20 });
  const [report, code] = await check(stage);
  assertEquals([idsOf(report), code], [["error api-server-unreachable"], 2]);
});

Deno.test("each kind that the API server refuses to list or to watch is an error", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  stage.api.faults.add({ type: "status", status: 403, kind: "EndpointSlice", on: "list" });
  stage.api.faults.add({ type: "status", status: 403, kind: "Node", on: "watch" });
  const [report, code] = await check(stage);
  assertEquals(report.findings.map(({ id, where }) => [id, where]), [
    ["api-server-refuses", "EndpointSlice"],
    ["api-server-refuses", "Node"],
  ]);
  assertEquals(code, 2);
});

Deno.test("a node without nft and iptables cannot write rules", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  const { code, stdout } = await execute([
    ...["ip", "netns", "exec", stage.network.namespaceOf(NODE), "env", "PATH=/nowhere"],
    ...signpostCommand(),
    ...["check", ...stage.args, "-o", "json"],
  ]);
  const report = JSON.parse(stdout) as CheckReport;
  assertEquals([idsOf(report), code], [["error rules-cannot-be-written"], 2]);
  assertEquals([report.program, report.objects], ["", true]);
});

const READ = ["services", "nodes", "endpointslices"];
const FORBIDDEN: Partial<ApiServerOptions> = {
  serviceCIDRs: false,
  rules: [{ apiGroups: ["", "discovery.k8s.io"], resources: READ, verbs: ["list", "watch"] }],
};

Deno.test("ServiceCIDRs that the role does not name, as before Kubernetes 1.33, are a note", async () => {
  await using stage = await Stage.create({ objects: OBJECTS, api: FORBIDDEN });
  const found = [["info optional-objects-refused"], 0];
  const [report, code] = await check(stage);
  assertEquals([idsOf(report), code], found);
  await using _signpost = await stage.startSynced(stage.socket);
  const [beside, codeBeside] = await check(stage, ...stage.socket);
  assertEquals([idsOf(beside), codeBeside], found);
  assertEquals([beside.daemon, beside.objects], [true, true]);
});

Deno.test("an API server that answers late is a warning", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  stage.api.faults.add({ type: "slow", milliseconds: 3_200, kind: "Node", on: "list" });
  const [report, code] = await check(stage);
  assertEquals([idsOf(report), code], [["warning api-server-slow"], 1]);
  assertMatch(report.findings[0]!.what, /^the API server answered after \d\.\d\d s$/);
});

Deno.test("an API server that says nothing is a warning while the daemon's watches are open", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  await using _signpost = await stage.startSynced(stage.socket);
  stage.api.faults.add({ type: "stall", count: 20 });
  const [report, code] = await check(stage, ...stage.socket);
  assertEquals([idsOf(report), code], [["warning api-server-slow"], 1]);
});

Deno.test("problems of objects are counted beside those of the node", async () => {
  const [web, other] = [service(a), service(a, { name: "other" })];
  await using stage = await Stage.create({ objects: [web, other] });
  const { stdout } = await runSignpost(stage.network, ["check", ...stage.args]);
  assertMatch(
    stdout,
    /: no node problems; \d+ conflicts?, \d without endpoints: signpost status\n/,
  );
  await using _signpost = await stage.startSynced(stage.socket);
  const beside = await stage.run("check");
  assertEquals(beside.stdout.split("\n")[0], stdout.split("\n")[0]);
});

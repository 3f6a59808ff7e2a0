import { assertEquals, assertMatch } from "@std/assert";
import type { ServiceReport } from "../../lib/explain/report.ts";
import type { Status } from "../../lib/model/status.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, NODE_PORT, service, slice } from "./cluster.ts";
import { Stage } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { node } from "../support/cluster.ts";

const test = sideBySide("findings of the node");

const a = ADDRESSES[4];
const HEALTH_CHECK_PORT = 32_111;

/** A load balancer's Service that is asked for its endpoints at a port of the node. */
const LOCAL = service(a, {
  ingress: [{ ip: a.loadBalancer }],
  spec: {
    type: "LoadBalancer",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: HEALTH_CHECK_PORT,
    ports: [{ name: "tcp", port: 80, targetPort: 8080, nodePort: NODE_PORT }],
  },
});

/** Runs a command that asks the daemon of a stage. */
async function ask<T>(stage: Stage, ...words: readonly string[]): Promise<readonly [T, number]> {
  const { code, stdout, stderr } = await stage.run(...words, "-o", "json");
  if (stdout === "") throw new Error(stderr);
  return [JSON.parse(stdout) as T, code];
}

function start(stage: Stage, ...args: readonly string[]) {
  return stage.startSynced([...stage.socket, ...args]);
}

test("log, status and metric name a Node whose address no interface has", async () => {
  const other = node({ name: "master-1", uid: "master-1", addresses: ["192.168.77.3"] });
  await using stage = await Stage.create({ objects: [other] });
  await using signpost = await start(stage, "--hostname-override", "master-1");
  const what = "Node master-1 has 192.168.77.3; no interface here has it";
  await signpost.waitForLog(new RegExp(` WARN ${what} finding=node-address-elsewhere `));
  const [status, code] = await ask<Status>(stage, "status");
  assertEquals([status.findings.map((each) => each.what), code], [[what], 0]);
  const name = 'signpost_node_findings{id="node-address-elsewhere",severity="warning"}';
  assertEquals(await stage.metric(name), 1);
  stage.apply({ ...other, status: { addresses: [{ type: "InternalIP", address: a.node }] } });
  await signpost.waitForLog(/a finding is gone finding=node-address-elsewhere/);
  await signpost.until("the metric", async () => await stage.metric(name) === 0);
});

test("explain, status and an Event name a taken health-check node port", async () => {
  await using stage = await Stage.create({ objects: [LOCAL, slice(a, ["local1"])] });
  stage.network.serve(NODE, { protocol: "tcp", port: HEALTH_CHECK_PORT });
  await using signpost = await start(stage);
  await signpost.waitForLog(/cannot listen on health-check node port 32111 of shop\/web/);
  const [status] = await ask<Status>(stage, "status");
  assertEquals(status.findings.map(({ id, services }) => [id, services]), [
    ["health-check-port-taken", ["shop/web"]],
  ]);
  const [report] = await ask<ServiceReport>(stage, "explain", "shop/web");
  assertEquals(report.findings.map(({ code, severity }) => [code, severity]), [
    ["health-check-port-taken", "warning"],
  ]);
  await signpost.until("an Event", () => eventsOf(stage).length > 0);
  assertMatch(eventsOf(stage)[0] ?? "", /^FailedToStartServiceHealthcheck .* port 32111 of shop/);
});

test("a health-check node port that is another Service's node port names both", async () => {
  const other = service(a, {
    name: "other",
    spec: {
      type: "NodePort",
      clusterIP: a.clusterIP2,
      ports: [{ name: "tcp", port: 80, targetPort: 8080, nodePort: HEALTH_CHECK_PORT }],
    },
  });
  await using stage = await Stage.create({ objects: [LOCAL, other, slice(a, ["local1"])] });
  await using signpost = await start(stage);
  await signpost.waitForLog(/32111 of shop\/web is the node port of shop\/other:tcp/);
  const [report] = await ask<ServiceReport>(stage, "explain", "shop/web");
  assertEquals(report.findings.map(({ code }) => code), ["health-check-port-is-node-port"]);
  await signpost.until("two Events", () => eventsOf(stage).length === 2);
});

/** The Warning Events that were sent, as `REASON NOTE`. */
function eventsOf({ api }: Stage): string[] {
  return api.store.list("Event").map(({ object }) => object)
    .filter(({ type }) => type === "Warning")
    .map(({ reason, note }) => `${reason} ${note}`);
}

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { PacketReport, ServiceReport } from "../../lib/explain/report.ts";
import { execute } from "../support/command.ts";
import type { Network } from "../support/network.ts";
import { signpostCommand } from "../support/signpost.ts";
import { FileStage } from "./case.ts";
import {
  ADDRESSES,
  type EndpointHost,
  type Manifest,
  PORT,
  service,
  slice,
  TARGET_PORT,
} from "./cluster.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("explain");

const a = ADDRESSES[4];

/** A Service that was broken in one way, in the kernel or around it. */
interface Broken {
  /** Changes the node after the rules are there. */
  readonly after: (network: Network) => Promise<unknown>;
  readonly endpoints?: readonly EndpointHost[];
  readonly args?: readonly string[];
  /** The endpoints that explain reads, where they are others by then. */
  readonly now?: readonly EndpointHost[];
  readonly finding: string;
  readonly exitCode: number;
}

/** Runs explain in the node; its report and exit code. */
async function ask<T>(stage: FileStage, ...words: readonly string[]) {
  const { code, stdout, stderr } = await stage.run("explain", ...words, "-o", "json");
  if (stdout === "") throw new Error(stderr);
  return { report: JSON.parse(stdout) as T, code };
}

const web = (spec: Manifest = {}): Manifest =>
  service(a, { spec: { selector: { app: "web" }, ...spec } });

/** Ways to break a Service, and how explain calls each. tests/scripts/causes.txt has those of objects. */
const BROKEN: Readonly<Record<string, Broken>> = {
  "an element that was deleted by hand": {
    after: (network) =>
      network.applyNft(`delete element inet signpost services4 { ${a.clusterIP} . tcp . ${PORT} }`),
    finding: "kernel-differs",
    exitCode: 1,
  },
  "a UDP flow that is tracked to an endpoint of before": {
    after: (network) =>
      network.connect({ from: "pod", protocol: "udp", address: a.clusterIP, port: PORT }),
    now: ["remote1"],
    args: ["shop/web", "--conntrack"],
    finding: "stale-conntrack",
    exitCode: 1,
  },
  "kube-proxy's rules beside ours": {
    after: (network) =>
      network.applyNft(`table ip kube-proxy {
  chain services { }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
}
`),
    finding: "kube-proxy-rules",
    exitCode: 0,
  },
  "no route to the endpoint": {
    endpoints: ["remote1"],
    after: (network) => network.ip("node", [`route replace unreachable ${a.remote1}/32`]),
    args: ["--from=node", "to", `${a.clusterIP}:${PORT}/tcp`, "--trace"],
    finding: "no-route",
    exitCode: 1,
  },
};

for (const [name, broken] of Object.entries(BROKEN)) {
  test(`explain names the cause in a real kernel: ${name}`, async () => {
    const { after, endpoints = ["local1"], now = endpoints, finding, exitCode } = broken;
    const objects = (hosts: readonly EndpointHost[]) => [web(), slice(a, hosts)];
    await using stage = await FileStage.createWithRules({ a, objects: objects(endpoints) });
    await after(stage.network);
    await stage.write(a, objects(now));
    const args = broken.args ?? ["shop/web"];
    const { report, code } = await ask<ServiceReport | PacketReport>(stage, ...args);
    const codes = report.findings.map(({ code }) => code);
    assertEquals(
      [codes.includes(finding), code],
      [true, exitCode],
      JSON.stringify(report.findings),
    );
  });
}

for (const mode of ["nftables", "iptables"]) {
  test(`explain finds nothing wrong with a Service that works, ${mode}`, async () => {
    const spec = { type: "LoadBalancer", sessionAffinity: "ClientIP" };
    const balanced = service(a, { spec, ingress: [{ ip: a.loadBalancer }] });
    const objects = [balanced, slice(a, ["local1", "remote1"])];
    await using stage = await FileStage.createWithRules({ a, objects, config: { mode } });
    const { report, code } = await ask<ServiceReport>(stage, "shop/web");
    assertEquals(
      [report.verdict, report.kernel.state, report.kernel.entries.length > 5, code],
      ["delivered", "same", true, 0],
      JSON.stringify([report.findings, report.kernel.entries[0]]),
    );
  });
}

test("explain shows a client that session affinity keeps", async () => {
  const objects = [web({ sessionAffinity: "ClientIP" }), slice(a, ["local1", "remote1"])];
  await using stage = await FileStage.createWithRules({ a, objects });
  const request = { from: "pod", address: a.clusterIP, port: PORT };
  const [outcome] = await stage.network.connect(request);
  const host = outcome?.type === "answer" ? outcome.answer.host : "nobody";
  const { report } = await ask<PacketReport>(stage, a.pod, "to", `${a.clusterIP}:${PORT}/tcp`);
  assertEquals(report.stickyEndpoint, {
    address: a[host as "local1" | "remote1"],
    port: TARGET_PORT,
  });
});

test("--trace confirms the verdict with a real packet", async () => {
  const objects = [web(), slice(a, ["local1", "remote1"])];
  await using stage = await FileStage.createWithRules({ a, objects });
  const trace = async (to: string) =>
    (await ask<PacketReport>(stage, a.node, "to", to, "--trace")).report;
  const delivered = await trace(`${a.clusterIP}:${PORT}/tcp`);
  assertEquals(
    [delivered.outcome.verdict, delivered.trace?.verdict, delivered.trace?.agrees],
    ["dnat", "dnat", true],
  );
  assertEquals([delivered.trace?.masqueraded, delivered.trace?.hasLeft], [true, true]);
  const udp = await trace(`${a.clusterIP}:${PORT}/udp`);
  assertMatch(udp.trace?.destination ?? "", /^10\.244\.[01]\.11:8080$/);
  const rejected = await trace(`${a.clusterIP}:81/tcp`);
  assertEquals([rejected.trace?.verdict, rejected.trace?.agrees], ["reject", true]);
  const dropped = await trace(`${a.unallocated}:${PORT}/tcp`);
  assertEquals([dropped.trace?.verdict, dropped.trace?.agrees], ["drop", true]);
  const tables = await stage.network.run("node", ["nft", "list", "tables"]);
  assertEquals(tables, "table inet signpost\n");
});

test("explain answers from the objects without nft", async () => {
  const objects = [web(), slice(a, ["local1"])];
  await using stage = await FileStage.createWithRules({ a, objects });
  const { code, stdout } = await execute([
    ...["ip", "netns", "exec", stage.network.namespaceOf("node"), "env", "PATH=/nowhere"],
    ...[...signpostCommand(), "explain", "shop/web", ...stage.args],
  ]);
  assertEquals(code, 0);
  assertStringIncludes(stdout, "Service shop/web works here");
  assertStringIncludes(stdout, "[kernel-unread]");
});

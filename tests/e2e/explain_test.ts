import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { PacketReport, ServiceReport } from "../../lib/explain/report.ts";
import { execute } from "../support/command.ts";
import type { Network } from "../support/network.ts";
import { runSignpost, signpostCommand } from "../support/signpost.ts";
import { applyOnce, createCluster, writeInput } from "./case.ts";
import {
  ADDRESSES,
  clusterObjects,
  configuration,
  type Manifest,
  PORT,
  service,
  slice,
  TARGET_PORT,
} from "./cluster.ts";
import { assertFlows, type Flow } from "./flow.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("explain");

const a = ADDRESSES[4];

/** A Service that was broken in one way. */
interface Broken {
  readonly objects: readonly Manifest[];
  /** Changes the node after the rules are there. */
  readonly after?: (network: Network) => Promise<void>;
  /** The outcomes of real packets. */
  readonly flows?: readonly Flow[];
  readonly args?: readonly string[];
  /** Objects that explain reads, where they are others by then. */
  readonly now?: readonly Manifest[];
  readonly finding: string;
  readonly exitCode: number;
}

/** Runs a command of signpost on objects; its report and exit code. */
async function ask<T>(network: Network, options: {
  readonly args: readonly string[];
  readonly objects: readonly Manifest[];
  readonly config?: Manifest;
}): Promise<{ readonly report: T; readonly code: number }> {
  const { args, objects, config = {} } = options;
  await using files = await writeInput({
    objects: [...clusterObjects(a), ...objects],
    config: configuration(a, config),
  });
  const [command = "", ...rest] = args;
  const sources = ["--config", files.config, "--manifests", files.manifests, "--socket", ""];
  const result = await runSignpost(network, [command, ...rest, ...sources, "-o", "json"]);
  if (result.stdout === "") throw new Error(result.stderr);
  return { report: JSON.parse(result.stdout) as T, code: result.code };
}

function apply(network: Network, objects: readonly Manifest[]): Promise<string> {
  return applyOnce(network, {
    objects: [...clusterObjects(a), ...objects],
    config: configuration(a),
  });
}

const web = (spec: Manifest = {}): Manifest =>
  service(a, { spec: { selector: { app: "web" }, ...spec } });

const gateway = (spec: Manifest = {}): Manifest =>
  service(a, { spec: { type: "LoadBalancer", ...spec }, ingress: [{ ip: a.loadBalancer }] });

const nft = (...command: string[]) => (network: Network) =>
  network.run("node", ["nft", ...command]).then(() => {});

/** Ways to break a Service, and how explain calls each. */
const BROKEN: Readonly<Record<string, Broken>> = {
  "a selector that matches nothing": {
    objects: [web(), slice(a, [])],
    flows: [{ from: "pod", to: a.clusterIP, reaches: "reject" }],
    finding: "selector-matches-nothing",
    exitCode: 1,
  },
  "a slice whose port has another name": {
    objects: [web(), slice(a, ["local1"], { ports: [{ name: "metrics", port: TARGET_PORT }] })],
    flows: [{ from: "pod", to: a.clusterIP, reaches: "reject" }],
    finding: "wrong-port-name",
    exitCode: 1,
  },
  "endpoints that are not ready": {
    objects: [web(), slice(a, [{ host: "local1", conditions: { ready: false } }])],
    flows: [{ from: "pod", to: a.clusterIP, reaches: "reject" }],
    finding: "none-ready",
    exitCode: 1,
  },
  "policy Local without an endpoint here": {
    objects: [web({ internalTrafficPolicy: "Local" }), slice(a, ["remote1"])],
    flows: [{ from: "pod", to: a.clusterIP, reaches: "drop" }],
    finding: "no-local-endpoints",
    exitCode: 1,
  },
  "a source range": {
    objects: [gateway({ loadBalancerSourceRanges: [a.client2CIDR] }), slice(a, ["local1"])],
    flows: [{ from: "client", to: a.loadBalancer, reaches: "drop" }],
    args: ["explain", a.client, "to", `${a.loadBalancer}:${PORT}/tcp`],
    finding: "source-range",
    exitCode: 1,
  },
  "an external IP that an older Service has": {
    objects: [
      web({ externalIPs: [a.externalIP] }),
      service(a, {
        name: "old",
        created: "2020-01-01T00:00:00Z",
        spec: { clusterIP: a.clusterIP2, externalIPs: [a.externalIP] },
      }),
      slice(a, ["local1"]),
      slice(a, ["remote1"], { service: "old" }),
    ],
    flows: [{ from: "client", to: a.externalIP, reaches: ["remote1"], masqueraded: true }],
    finding: "conflict",
    exitCode: 1,
  },
  "an element that was deleted by hand": {
    objects: [web(), slice(a, ["local1", "remote1"])],
    after: nft(
      "delete",
      "element",
      "inet",
      "signpost",
      "services4",
      `{ ${a.clusterIP} . tcp . ${PORT} }`,
    ),
    finding: "kernel-differs",
    exitCode: 1,
  },
  "a UDP flow that is tracked to an endpoint of before": {
    objects: [web(), slice(a, ["local1"])],
    after: async (network) => {
      await network.connect({ from: "pod", protocol: "udp", address: a.clusterIP, port: PORT });
    },
    now: [web(), slice(a, ["remote1"])],
    args: ["explain", "shop/web", "--conntrack"],
    finding: "stale-conntrack",
    exitCode: 1,
  },
  "kube-proxy's rules beside ours": {
    objects: [web(), slice(a, ["local1"])],
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
    objects: [web(), slice(a, ["remote1"])],
    after: (network) => network.ip("node", [`route replace unreachable ${a.remote1}/32`]),
    args: ["explain", "--from=node", "to", `${a.clusterIP}:${PORT}/tcp`, "--trace"],
    finding: "no-route",
    exitCode: 1,
  },
};

for (const [name, broken] of Object.entries(BROKEN)) {
  test(`explain names the cause in a real kernel: ${name}`, async () => {
    const { objects, after, flows = [], now = objects, finding, exitCode } = broken;
    await using network = await createCluster();
    await apply(network, objects);
    await assertFlows(network, flows);
    await after?.(network);
    const { report, code } = await ask<ServiceReport | PacketReport>(network, {
      args: broken.args ?? ["explain", "shop/web"],
      objects: now,
    });
    const codes = report.findings.map(({ code }) => code);
    assertEquals(
      [codes.includes(finding), code],
      [true, exitCode],
      JSON.stringify(report.findings),
    );
  });
}

test("explain finds nothing wrong with a Service that works, in both modes", async () => {
  const objects = [gateway({ sessionAffinity: "ClientIP" }), slice(a, ["local1", "remote1"])];
  await using network = await createCluster();
  for (const mode of ["nftables", "iptables"]) {
    const config = { mode };
    await using files = await writeInput({
      objects: [...clusterObjects(a), ...objects],
      config: configuration(a, config),
    });
    const script = await runSignpost(network, [
      "--once",
      "--config",
      files.config,
      "--manifests",
      files.manifests,
    ]);
    if (mode === "nftables") await network.applyNft(script.stdout);
    else await applyIptables(network, script.stdout);
    const args = ["explain", "shop/web"];
    const { report, code } = await ask<ServiceReport>(network, { args, objects, config });
    assertEquals(
      [report.verdict, report.kernel.state, report.kernel.entries.length > 5, code],
      ["delivered", "same", true, 0],
      JSON.stringify([report.findings, report.kernel.entries[0]]),
    );
    if (mode === "nftables") await network.run("node", ["nft", "delete table inet signpost"]);
  }
});

async function applyIptables(network: Network, script: string): Promise<void> {
  const [, ipv4 = "", ipv6 = ""] =
    /# iptables-restore\n([^]*)# ip6tables-restore\n([^]*)$/.exec(script) ?? [];
  await network.run("node", ["iptables-restore", "--noflush"], { stdin: ipv4 });
  await network.run("node", ["ip6tables-restore", "--noflush"], { stdin: ipv6 });
}

test("explain shows a client that session affinity keeps", async () => {
  const objects = [web({ sessionAffinity: "ClientIP" }), slice(a, ["local1", "remote1"])];
  await using network = await createCluster();
  await apply(network, objects);
  const [outcome] = await network.connect({ from: "pod", address: a.clusterIP, port: PORT });
  const host = outcome?.type === "answer" ? outcome.answer.host : "nobody";
  const { report } = await ask<PacketReport>(network, {
    args: ["explain", a.pod, "to", `${a.clusterIP}:${PORT}/tcp`],
    objects,
  });
  assertEquals(report.stickyEndpoint, {
    address: a[host as "local1" | "remote1"],
    port: TARGET_PORT,
  });
});

test("--trace confirms the verdict with a real packet", async () => {
  const objects = [web(), slice(a, ["local1", "remote1"])];
  await using network = await createCluster();
  await apply(network, objects);
  const trace = async (to: string) => {
    const args = ["explain", a.node, "to", to, "--trace"];
    return (await ask<PacketReport>(network, { args, objects })).report;
  };
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
  const tables = await network.run("node", ["nft", "list", "tables"]);
  assertEquals(tables, "table inet signpost\n");
});

test("explain answers from the objects without nft", async () => {
  const objects = [web(), slice(a, ["local1"])];
  await using network = await createCluster();
  await apply(network, objects);
  await using files = await writeInput({
    objects: [...clusterObjects(a), ...objects],
    config: configuration(a),
  });
  const { code, stdout } = await execute([
    ...["ip", "netns", "exec", network.namespaceOf("node"), "env", "PATH=/nowhere"],
    ...signpostCommand(),
    ...["explain", "shop/web", "--config", files.config, "--manifests", files.manifests],
  ]);
  assertEquals(code, 0);
  assertStringIncludes(stdout, "Service shop/web works here");
  assertStringIncludes(stdout, "[kernel-unread]");
});

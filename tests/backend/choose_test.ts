import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openBackend } from "../../lib/backend/choose.ts";
import { FatalError } from "../../lib/model/values/errors.ts";
import type { ProxyMode } from "../../lib/model/configuration.ts";
import { configuration } from "../support/configuration.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { Pipeline } from "../support/pipeline.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";
import type { ProcessResult, ProcessRunner } from "../../lib/model/ports/ports.ts";
import { FakeNode } from "../cli/fake_node.ts";
import { service } from "../support/cluster.ts";

const SILENT = { async *lines(): AsyncIterable<string> {} };

function open(
  node: Pick<FakeNode, "runner">,
  mode: ProxyMode,
  logger = new MemoryLogger(),
  { hasIpv6 = true, clock = new ManualClock() } = {},
) {
  const osRelease = () => "6.12.117";
  const runtime = {
    runner: node.runner,
    pid: 4711,
    streamer: SILENT,
    clock,
    hasIpv6: () => hasIpv6,
    osRelease,
  };
  return openBackend({ configuration: configuration({ mode }), runtime, logger });
}

Deno.test("without a mode nftables comes first", async () => {
  const opened = await open(new FakeNode(), "");
  assertEquals([opened.backend.traits.name, opened.version], ["nftables", "1.0.6"]);
});

Deno.test("nftables that was asked for says nothing", async () => {
  const logger = new MemoryLogger();
  assertEquals((await open(new FakeNode(), "nftables", logger)).findings, []);
  assertEquals(logger.lines, []);
});

Deno.test("without a mode iptables is next, with a finding that says why", async () => {
  const node = new FakeNode();
  node.failures.set("nft", "Error: Could not process rule: Operation not supported");
  const { backend, findings } = await open(node, "");
  assertEquals(backend.traits.name, "iptables");
  assertEquals(findings.map(({ id }) => id), ["nftables-unusable"]);
  assertMatch(
    findings[0]?.what ?? "",
    /iptables is used, since nftables cannot be: nft .* refuses: "Error: .*not supported"/,
  );
});

Deno.test("where neither can be used, the end says why of each", async () => {
  const node = new FakeNode([]);
  node.missing.add("nft").add("iptables");
  const error = await assertRejects(() => open(node, ""), FatalError);
  assertMatch(error.message, /^neither .*: the program nft cannot be run.*; cannot run iptables: /);
});

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`${mode} that was asked for and cannot be is the end`, async () => {
    const node = new FakeNode(mode === "nftables" ? undefined : []);
    node.missing.add("nft");
    const error = await assertRejects(() => open(node, mode), FatalError);
    assertMatch(error.message, /install/);
  });
}

Deno.test("a missing family and mixed backends are findings", async () => {
  const node = new FakeNode();
  node.saved.set("iptables-nft-save", "*filter\n-A INPUT -j ACCEPT\nCOMMIT\n");
  node.saved.set("iptables-legacy-save", "*filter\n-A INPUT -j ACCEPT\nCOMMIT\n");
  node.missing.add("ip6tables-nft");
  const { findings } = await open(node, "iptables");
  assertEquals(findings.map(({ id, severity }) => [id, severity]), [
    ["iptables-variants-mixed", "warning"],
    ["ip-family-not-written", "warning"],
  ]);
});

/** Writes rules twice. */
async function applyTwice(node: FakeNode, logger: MemoryLogger): Promise<void> {
  const { backend } = await open(node, "iptables", logger);
  const pipeline = new Pipeline({ mode: "iptables" });
  pipeline.load([]);
  for (let i = 0; i < 2; i++) {
    await backend.dataplane.apply(backend.dataplane.full(pipeline.desired));
  }
}

Deno.test("iptables mode follows nf_conntrack_tcp_be_liberal when it changes", async () => {
  const name = "net.netfilter.nf_conntrack_tcp_be_liberal";
  const node = new FakeNode();
  node.sysctls.set(name, "1");
  const clock = new ManualClock();
  const opened = await open(node, "iptables", undefined, { clock });
  const pipeline = new Pipeline({ mode: "iptables" });
  pipeline.load([]);
  const drops = () =>
    opened.backend.dataplane.full(pipeline.desired).text.includes("INVALID -j DROP");
  assertEquals(drops(), false);
  const reasons: string[] = [];
  const stop = new AbortController();
  const watching = opened.backend.dataplane.watchDrift({
    desired: pipeline.desired,
    onDrift: () => {},
    onChange: (reason) => reasons.push(reason),
    signal: stop.signal,
  });
  const period = configuration().iptables.syncPeriod;
  await clock.advance(period);
  assertEquals(reasons, []);
  node.sysctls.set(name, "0");
  await clock.advance(period);
  assertEquals([drops(), reasons], [true, ["nf_conntrack_tcp_be_liberal is no longer set"]]);
  node.sysctls.set(name, "1");
  await clock.advance(period);
  assertEquals([drops(), reasons.length], [false, 2]);
  stop.abort();
  await watching;
});

Deno.test("route_localnet is set once", async () => {
  const node = new FakeNode();
  const logger = new MemoryLogger();
  await applyTwice(node, logger);
  const settings = node.changes.filter((change) => change.startsWith("sysctl"));
  assertEquals(settings, ["sysctl: net.ipv4.conf.all.route_localnet=1"]);
  assertEquals(logger.at("warn"), []);
});

Deno.test("a route_localnet that cannot be set keeps no rule back", async () => {
  const node = new FakeNode();
  node.failures.set("sysctl", "sysctl: setting key: Read-only file system");
  const logger = new MemoryLogger();
  await applyTwice(node, logger);
  assertEquals(
    node.changes.filter((change) => change.startsWith("iptables-nft-restore")).length,
    2,
  );
  assertEquals(logger.at("warn"), []);
});

Deno.test("a sysctl that hangs is waited for two seconds", async () => {
  const node = new FakeNode();
  const clock = new ManualClock();
  const first = Promise.withResolvers<ProcessResult>();
  const name = "net.ipv4.conf.all.route_localnet";
  let reads = 0;
  const runner: ProcessRunner = {
    run: (argv, stdin) => {
      if (argv.join(" ") !== `sysctl -n ${name}`) return node.runner.run(argv, stdin);
      reads++;
      return first.promise;
    },
  };
  const { backend } = await open({ runner }, "iptables", undefined, { clock });
  const pipeline = new Pipeline({ mode: "iptables" });
  pipeline.load([]);
  for (let sync = 0; sync < 2; sync++) {
    let isDone = false;
    const applied = backend.dataplane.apply(backend.dataplane.full(pipeline.desired)).then(() =>
      isDone = true
    );
    await settle();
    await clock.advance(1_999);
    assertEquals(isDone, false);
    await clock.advance(1);
    assertEquals(isDone, true);
    await applied;
  }
  assertEquals([reads, node.sysctls.get(name)], [1, undefined]);
  first.resolve({ code: 0, stdout: "0\n", stderr: "" });
  await clock.advance(0);
  assertEquals([reads, node.sysctls.get(name)], [1, "1"]);
});

const DUAL_SERVICE = service({
  namespace: "shop",
  type: "LoadBalancer",
  clusterIP: "10.96.0.10",
  clusterIPs: ["10.96.0.10", "fd00:10:96::10"],
  ports: [{ name: "http", port: 80, nodePort: 30080 }],
  loadBalancerSourceRanges: ["198.51.100.0/24", "2001:db8::/33"],
  ingress: ["192.0.2.10", "2001:db8:1::10"],
});

/** Matches words about IPv6 in a script or a command. */
const IPV6 = /ip6|fd00:|2001:db8|::|[a-z-]6\b/;

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`${mode} mode writes IPv4 rules alone on a node without IPv6`, async () => {
    const node = new FakeNode(mode === "nftables" ? [] : ["-legacy"]);
    const logger = new MemoryLogger();
    const opened = await open(node, mode, logger, { hasIpv6: false });
    const reason = "this node has no IPv6 (the kernel has no IPv6 sockets)";
    assertEquals([...opened.missing], [[6, reason]]);
    assertEquals(opened.findings.map(({ id, what }) => [id, what]), [
      ["ip-family-missing", `no IPv6 rules: ${reason}`],
    ]);
    assertEquals(logger.at("warn"), []);
    const configured = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/64"] };
    const pipeline = new Pipeline({ mode, ipFamilies: [4], configuration: configured });
    pipeline.load([DUAL_SERVICE]);
    const script = opened.backend.dataplane.full(pipeline.desired);
    assertEquals(IPV6.exec(script.text)?.[0], undefined, script.text);
    assertMatch(script.text, /10\.96\.0\.10/);
    const { change } = pipeline.load([]);
    const step = atOnce(opened.backend.dataplane.changing(change, pipeline.desired));
    assertEquals(IPV6.exec(step?.text ?? "")?.[0], undefined, step?.text);
    await opened.backend.dataplane.apply(script);
    const programs = node.changes.map((each) => each.split(" ")[0]);
    assertEquals(programs.filter((each) => each?.startsWith("ip6")), []);
  });
}

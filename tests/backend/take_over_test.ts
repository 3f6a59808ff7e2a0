import { assertEquals, assertMatch } from "@std/assert";
import { ProxyTakeOver } from "../../lib/backend/take_over.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";
import { configuration } from "../support/configuration.ts";
import { FakeNode, KUBE_PROXY_RULES, SIGNPOST_RULES } from "../cli/fake_node.ts";
import { FakeIpvs } from "./ipvs/fake_ipvs.ts";

const RESTORED = "-X KUBE-MARK-MASQ, -X KUBE-SERVICES";

interface Setup {
  readonly node: FakeNode;
  readonly logger: MemoryLogger;
  readonly handOver: ProxyTakeOver;
  readonly clock: ManualClock;
}

/** @param backend of iptables mode; without one it is nftables mode */
function setUp(
  backend?: "-nft" | "-legacy",
  node = new FakeNode(),
  runner: ProcessRunner = node.runner,
): Setup {
  const logger = new MemoryLogger();
  const clock = new ManualClock();
  const variant = backend && (() => Promise.resolve(backend));
  const handOver = new ProxyTakeOver({
    variant,
    configuration: configuration(),
    runner,
    pid: 17,
    clock,
    logger,
  });
  return { node, logger, handOver, clock };
}

Deno.test("kube-proxy's tables are deleted by the prologue of the first transaction only", async () => {
  const { node, handOver } = setUp();
  assertEquals(await handOver.prologue(), "");
  node.tables.add("ip kube-proxy").add("ip nat").add("ip6 kube-proxy");
  const both = "delete table ip kube-proxy\ndelete table ip6 kube-proxy\n";
  assertEquals(await handOver.prologue(), both);
  assertEquals(node.changes, []);
  await handOver.finish();
  node.tables.add("ip kube-proxy");
  assertEquals(await handOver.prologue(), "");
});

Deno.test("after our nftables rules have come, the chains of both backends go", async () => {
  const { node, logger, handOver } = setUp();
  node.saved.set("iptables-nft-save", SIGNPOST_RULES);
  node.saved.set("ip6tables-legacy-save", KUBE_PROXY_RULES);
  await handOver.finish();
  assertEquals(node.changes, [
    `iptables-nft-restore: ${RESTORED}`,
    `ip6tables-legacy-restore: ${RESTORED}`,
  ]);
  assertEquals(logger.lines, [
    'info took over; the old rules are removed {"what":"KUBE chains of iptables-nft (of signpost)"}',
    'info took over; the old rules are removed {"what":"KUBE chains of ip6tables-legacy (of kube-proxy)"}',
  ]);
});

Deno.test("rules are read once from each program", async () => {
  const node = new FakeNode();
  const saves: string[] = [];
  const runner: ProcessRunner = {
    run: (argv, stdin) => {
      if (argv[0].endsWith("-save")) saves.push(argv[0]);
      return node.runner.run(argv, stdin);
    },
  };
  await setUp(undefined, node, runner).handOver.finish();
  assertEquals(saves, [
    "iptables-nft-save",
    "ip6tables-nft-save",
    "iptables-legacy-save",
    "ip6tables-legacy-save",
  ]);
  saves.length = 0;
  for (const variant of ["-nft", "-legacy"]) node.missing.add(`iptables${variant}-save`);
  await setUp(undefined, node, runner).handOver.finish();
  assertEquals(saves, ["iptables-nft-save", "iptables-legacy-save", "iptables-save"]);
});

Deno.test("iptables mode keeps its own backend", async () => {
  const { node, handOver } = setUp("-legacy");
  node.tables.add("inet signpost").add("ip kube-proxy").add("inet filter");
  node.saved.set("iptables-legacy-save", SIGNPOST_RULES);
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  await handOver.finish();
  assertEquals(node.changes, [
    "nft: delete table ip kube-proxy; delete table inet signpost",
    `iptables-nft-restore: ${RESTORED}`,
  ]);
  assertEquals([...node.tables], ["inet filter"]);
});

Deno.test("in iptables mode nft need not be there", async () => {
  const { node, logger, handOver } = setUp("-nft");
  node.missing.add("nft");
  await handOver.finish();
  assertEquals(await handOver.check(), false);
  assertEquals([node.changes, logger.lines], [[], []]);
});

Deno.test("iptables mode needs no nftables in the kernel", async () => {
  const { node, logger, handOver } = setUp("-legacy");
  node.failures.set("nft", "netlink: Error: cache initialization failed: Protocol not supported");
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  await handOver.finish();
  assertEquals(node.changes, [`iptables-nft-restore: ${RESTORED}`]);
  assertEquals([await handOver.findProxy(), logger.at("warn")], [[], []]);
});

Deno.test("a removal that failed is tried again at each check", async () => {
  const { node, logger, handOver } = setUp();
  node.saved.set("iptables-legacy-save", KUBE_PROXY_RULES);
  node.failures.set(
    "iptables-legacy-restore",
    "Another app is currently holding the xtables lock; still 1s",
  );
  await handOver.finish();
  await handOver.check();
  assertEquals([logger.lines.length, handOver.failures], [1, 2]);
  assertMatch(logger.lines[0] ?? "", /^warn .*could not be removed; trying again.*lock for 5 s/);
  node.failures.clear();
  await handOver.check();
  assertEquals(node.changes, [`iptables-legacy-restore: ${RESTORED}`]);
  assertEquals(logger.at("warn").length, 1);
});

Deno.test("a proxy that comes back is named and left alone", async () => {
  const { node, logger, handOver } = setUp();
  await handOver.finish();
  assertEquals(await handOver.check(), false);
  assertEquals(logger.lines, []);
  node.tables.add("ip kube-proxy");
  node.saved.set("ip6tables-nft-save", KUBE_PROXY_RULES);
  node.kubeProxies.push("4711");
  for (let i = 0; i < 3; i++) assertEquals(await handOver.check(), false);
  assertEquals(handOver.rival, {
    rules: ["table ip kube-proxy", "KUBE chains of ip6tables-nft (of kube-proxy)"],
    processes: ["kube-proxy (pid 4711)"],
  });
  assertEquals(logger.lines, []);
  assertEquals(node.changes, []);
});

Deno.test("what a proxy wrote again goes when its process has been seen to go", async () => {
  const { node, handOver } = setUp();
  await handOver.finish();
  node.tables.add("ip kube-proxy");
  node.kubeProxies.push("4711");
  await handOver.check();
  node.kubeProxies.splice(0, 1, "4712");
  await handOver.check();
  assertEquals(node.changes, []);
  node.kubeProxies.pop();
  assertEquals(await handOver.check(), false);
  assertEquals(node.changes, ["nft: delete table ip kube-proxy"]);
  node.tables.add("ip kube-proxy");
  assertEquals(handOver.rival, undefined);
  await handOver.check();
  assertEquals(handOver.rival?.processes, []);
});

Deno.test("a proxy whose process cannot be seen is left alone for good", async () => {
  const { node, handOver } = setUp();
  node.missing.add("pgrep");
  await handOver.finish();
  node.tables.add("ip kube-proxy");
  for (let i = 0; i < 3; i++) await handOver.check();
  assertEquals(node.changes, []);
  assertEquals(handOver.rival, { rules: ["table ip kube-proxy"], processes: [] });
});

Deno.test("a kube-proxy that writes over our chains is reported", async () => {
  const { node, handOver } = setUp("-nft");
  node.saved.set("iptables-nft-save", SIGNPOST_RULES);
  await handOver.finish();
  assertEquals(await handOver.check(), false);
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  node.kubeProxies.push("4711");
  assertEquals(await handOver.check(), false);
  assertEquals(handOver.rival?.rules.at(-1), "KUBE chains of iptables-nft, over ours");
  node.kubeProxies.pop();
  assertEquals(await handOver.check(), true);
  assertEquals(node.changes, []);
});

Deno.test("after the rules of a kube-proxy over ours have gone, a full sync is asked for", async () => {
  const { node, clock, handOver } = setUp("-nft");
  const stop = new AbortController();
  const full: string[] = [];
  let looks = 0;
  const running = handOver.run({
    period: 30_000,
    requestFull: (reason) => void full.push(reason),
    looked: () => void looks++,
    signal: stop.signal,
  });
  const look = async () => {
    await settle();
    await clock.advance(120_000);
    await settle();
  };
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  node.kubeProxies.push("4711");
  await look();
  assertEquals([looks, full], [1, []]);
  node.kubeProxies.pop();
  await look();
  assertEquals([looks, full], [2, ["kube-proxy has gone"]]);
  stop.abort();
  await running;
});

Deno.test("what a kubelet makes is not another proxy", async () => {
  const { node, logger, handOver } = setUp();
  await handOver.finish();
  node.saved.set(
    "iptables-nft-save",
    KUBE_PROXY_RULES.replaceAll("KUBE-SERVICES", "KUBE-FIREWALL"),
  );
  await handOver.check();
  assertEquals(logger.lines, []);
});

Deno.test("programs that fail at a check are not another proxy", async () => {
  const { node, logger, handOver } = setUp();
  await handOver.finish();
  node.failures.set("nft", "Error: Operation not permitted");
  node.failures.set("iptables-nft-save", "Permission denied");
  assertEquals(await handOver.check(), false);
  assertEquals(logger.lines, []);
});

Deno.test("a node is served by rules of any proxy in any mode that packets meet", async () => {
  const { node, handOver } = setUp();
  assertEquals(await handOver.isServed(), false);
  for (const table of ["inet signpost", "ip6 kube-proxy"]) {
    node.tables.add(table);
    assertEquals(await handOver.isServed(), true, table);
    node.tables.clear();
  }
  node.tables.add("inet other");
  for (const rules of [SIGNPOST_RULES, KUBE_PROXY_RULES]) {
    node.saved.set("ip6tables-legacy-save", rules);
    assertEquals(await handOver.isServed(), true);
    // As `iptables -t nat -F` leaves it.
    node.saved.set("ip6tables-legacy-save", rules.replace(/^-A PREROUTING .*\n/m, ""));
    assertEquals(await handOver.isServed(), false);
  }
  node.missing.add("nft");
  assertEquals(await handOver.isServed(), false);
});

Deno.test("chains that others need stay, each with a warning that says why", async () => {
  const { node, logger, handOver } = setUp();
  node.saved.set(
    "iptables-nft-save",
    `*filter
:FORWARD DROP [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:CNI-SETMARK - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A CNI-SETMARK -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
`,
  );
  await handOver.finish();
  assertEquals(node.changes, ["iptables-nft-restore: -X KUBE-SERVICES"]);
  const [forward = "", mark = "", ...others] = logger.at("warn");
  assertEquals(others, []);
  assertMatch(forward, /accepts packets of Services: it stays.*"chain":"filter KUBE-FORWARD"/);
  assertMatch(mark, /mark packets by this chain: it stays.*"chain":"nat KUBE-MARK-MASQ"/);
});

Deno.test("a guard that is left without what it guards goes, in both modes", async () => {
  for (const backend of [undefined, "-nft"] as const) {
    const { node, handOver } = setUp(backend);
    node.tables.add("inet ipvs-signpost");
    await handOver.finish();
    assertEquals(node.changes, ["nft: delete table inet ipvs-signpost"]);
  }
  using it = setUpIpvs();
  await it.handOver.finish();
  it.node.tables.add("inet ipvs-signpost");
  await it.handOver.finish();
  assertEquals([...it.node.tables], ["inet ipvs-signpost"]);
});

/** A node that kube-proxy's ipvs mode serves. */
function setUpIpvs() {
  const [node, ipvs] = [new FakeNode(), new FakeIpvs()];
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  const { logger, clock, handOver } = setUp(undefined, node, {
    run: (argv, stdin) =>
      /^(?:ip|cat|ipset|ipvsadm|conntrack)$/.test(argv[0])
        ? ipvs.runner.run(argv, stdin)
        : node.runner.run(argv, stdin),
  });
  const stop = new AbortController();
  const pass = async (seconds: number) => {
    for (let i = 0; i < seconds / 5; i++) {
      await settle();
      await clock.advance(5_000);
    }
  };
  const follow = (seconds: number) => {
    void handOver.follow(stop.signal);
    return pass(seconds);
  };
  /** Runs all of it, with a check every 120 s. */
  const run = () =>
    void handOver.run({
      period: 30_000,
      requestFull: () => {},
      looked: () => {},
      signal: stop.signal,
    });
  return { node, ipvs, logger, handOver, pass, follow, run, [Symbol.dispose]: () => stop.abort() };
}

Deno.test("unused sets of an earlier signpost are removed", async () => {
  using it = setUpIpvs();
  await it.handOver.finish();
  assertEquals(it.ipvs.changes, []);
  using later = setUpIpvs();
  later.ipvs.addresses = undefined;
  await later.handOver.finish();
  assertEquals(later.ipvs.changes.map((line) => line.split(" ")[1]), ["destroy", "destroy"]);
});

Deno.test("tables that cannot be listed are removed later", async () => {
  const { node, logger, handOver } = setUp("-nft");
  node.tables.add("ip kube-proxy");
  node.failures.set("nft", "Error: Device or resource busy");
  await handOver.finish();
  assertEquals(logger.at("warn").length, 1);
  node.failures.clear();
  await handOver.check();
  assertEquals([...node.tables], []);

  using it = setUpIpvs();
  await it.handOver.finish();
  it.node.failures.set("nft", "Error: Device or resource busy");
  await it.follow(100);
  assertEquals(it.ipvs.changes, []);
  it.node.failures.clear();
  await it.follow(100);
  assertEquals(it.handOver.ipvs, undefined);
});

Deno.test("a kube-proxy of ipvs mode that only its rules tell of keeps what it made", async () => {
  using it = setUpIpvs();
  await it.handOver.finish();
  assertEquals(it.node.saved.get("iptables-nft-save"), "");
  await it.follow(30);
  // Its next sync.
  it.node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  await it.follow(60);
  assertEquals(it.ipvs.changes, []);
  assertMatch(it.handOver.ipvs?.obstacle ?? "", /its rules are there/);
});

Deno.test("what kube-proxy's ipvs mode makes again is guarded", async () => {
  using it = setUpIpvs();
  const { node, ipvs, handOver, pass } = it;
  it.run();
  await pass(110);
  assertEquals([ipvs.addresses, handOver.ipvs], [undefined, undefined]);
  ipvs.addresses = ["10.96.0.10"];
  ipvs.hasServers = true;
  ipvs.active = 1;
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  node.kubeProxies.push("4711");
  await pass(15);
  assertMatch(node.changes.at(-1) ?? "", /^nft: .*elements = \{ 10\.96\.0\.10 \}/);
  await pass(400);
  assertMatch(handOver.ipvs?.obstacle ?? "", /kube-proxy \(pid 4711\)/);
  assertEquals(ipvs.addresses, ["10.96.0.10"]);
  node.kubeProxies.pop();
  await pass(175);
  assertEquals([handOver.ipvs?.connections, handOver.ipvs?.obstacle], [1, ""]);
  ipvs.active = 0;
  await pass(10);
  assertEquals([ipvs.addresses, handOver.ipvs], [undefined, undefined]);
});

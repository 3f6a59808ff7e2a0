import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { IpvsKernel } from "../../../lib/backend/ipvs/kernel.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { GUARD_REMOVAL, IpvsTakeOver } from "../../../lib/backend/ipvs/take_over.ts";
import { cleanUp, type Removal } from "../../../lib/backend/clean_up.ts";
import { ManualClock, MemoryLogger, settle } from "../../support/clock_and_log.ts";
import { DEFAULTS } from "../../support/configuration.ts";
import { FakeIpvs } from "./fake_ipvs.ts";

const PERIOD = 5_000;
const GRACE = 120_000;
/** Periods in which nothing is removed yet. */
const FIRST = 12;

function setUp(node = new FakeIpvs(), grace = GRACE) {
  const clock = new ManualClock();
  const logger = new MemoryLogger();
  const state: { obstacle: string | undefined } = { obstacle: undefined };
  const takeOver = new IpvsTakeOver({
    runner: node.runner,
    nft: new Nft(node.runner),
    clock,
    logger,
    configuration: {
      ipvs: { ...DEFAULTS.ipvs, excludeCIDRs: ["192.0.2.128/25"] },
      signpost: { ...DEFAULTS.signpost, ipvsGracePeriod: grace },
    },
    obstacle: () => Promise.resolve(state.obstacle),
  });
  /** Looks once, after a period. */
  const look = async () => {
    const stop = new AbortController();
    const running = takeOver.run(stop.signal);
    await settle();
    stop.abort();
    await running;
    await clock.advance(PERIOD);
  };
  return { node, clock, logger, state, takeOver, look };
}

/** Runs it until it waits for the time to pass. */
async function run({ takeOver, clock }: ReturnType<typeof setUp>, periods: number) {
  const stop = new AbortController();
  const running = takeOver.run(stop.signal);
  for (let i = 0; i < periods; i++) {
    await settle();
    await clock.advance(PERIOD);
  }
  await settle();
  stop.abort();
  await running;
}

/** Changes a node, begins the take-over, and lets it run. */
async function taken(
  periods: number,
  change: (node: FakeIpvs) => void = () => {},
): Promise<ReturnType<typeof setUp>> {
  const it = setUp();
  change(it.node);
  await it.takeOver.takeOver();
  await run(it, periods);
  return it;
}

Deno.test("a node without kube-ipvs0 is left alone", async () => {
  const node = new FakeIpvs();
  node.addresses = undefined;
  const it = setUp(node);
  assertEquals(await it.takeOver.prologue(), "");
  await it.takeOver.prepare();
  await it.takeOver.takeOver();
  await run(it, 1);
  assertEquals(node.changes, []);
  assertEquals(it.takeOver.report, undefined);
});

Deno.test("the first transaction has the guard", async () => {
  const { takeOver } = setUp();
  const script = await takeOver.prologue();
  assertMatch(script, /elements = \{ 10\.96\.0\.10, 192\.0\.2\.10 \}/);
  assertStringIncludes(script, "10.96.0.10 . tcp . 80");
  assertStringIncludes(script, "192.168.0.2 . tcp . 30080");
  // A load balancer at an address of the node, and one in an excluded range.
  assertStringIncludes(script, "192.168.0.2 . tcp . 443");
  assert(!script.includes("192.0.2.200"));
  assertMatch(script, /type filter hook output priority -99/);
  assertMatch(script, /@servers4 reject\n.*@vips4 .* return\n.*@vips4 reject/);
});

Deno.test("virtual servers answer in iptables mode until our rules are there", async () => {
  const { node, takeOver } = setUp();
  await takeOver.prepare();
  assertMatch(node.scripts[0] ?? "", /@servers4 return\n.*@vips4 .* return\n.*@vips4 reject/);
  await takeOver.takeOver();
  assertMatch(node.scripts[1] ?? "", /@servers4 reject\n.*@vips4 .* return\n.*@vips4 reject/);
});

Deno.test("a look that fails once removes no guard: the take-over goes on at the next one", async () => {
  const it = setUp();
  const { node, takeOver } = it;
  await takeOver.prologue();
  node.failures.set("ip addr show", "busy");
  await takeOver.takeOver();
  await run(it, 2);
  assertEquals([takeOver.isUnderWay, node.scripts.length], [true, 0]);
  node.failures.clear();
  await run(it, FIRST + 1);
  assertEquals([takeOver.isUnderWay, node.addresses], [false, undefined]);
  assertEquals(node.scripts.filter((script) => script === GUARD_REMOVAL).length, 1);
  await takeOver.takeOver();
  assertEquals(takeOver.isUnderWay, false);
});

Deno.test("all of it goes when the last connection has ended", async () => {
  const it = setUp();
  const { node, takeOver, logger } = it;
  await takeOver.prologue();
  await takeOver.takeOver();
  node.active = 2;
  await run(it, 2);
  assertEquals(takeOver.report?.connections, 2);
  assertEquals(node.changes, []);
  node.active = 0;
  await run(it, FIRST);
  assertEquals(node.changes, [
    "ipvsadm: -D -t 10.96.0.10:80; -D -u 10.96.0.10:80; -D -t 192.168.0.2:30080; -D -t 192.168.0.2:443",
    "ip link delete kube-ipvs0",
    "conntrack -D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 80",
    "conntrack -D -f ipv4 -p tcp --orig-dst 10.96.0.10 --orig-port-dst 80 --orig-src 10.244.0.10 --orig-port-src 55918",
    "conntrack -D -f ipv4 -p tcp --orig-dst 192.168.0.2 --orig-port-dst 443 --orig-src 203.0.113.10 --orig-port-src 44626",
    "ipset destroy KUBE-CLUSTER-IP",
    "ipset destroy KUBE-6-LOAD-BALANCER-SOURCE-CID",
  ]);
  assertEquals(node.scripts.at(-1), GUARD_REMOVAL);
  assertEquals(takeOver.report, undefined);
  assertEquals(logger.at("warn"), []);
});

Deno.test("IPVS without connections is removed at the second look in a row", async () => {
  const it = await taken(FIRST, (node) => node.active = 1);
  for (const active of [0, 1, 0]) {
    it.node.active = active;
    await it.look();
    assertEquals(it.node.changes, []);
  }
  await it.look();
  assertEquals(it.node.addresses, undefined);
});

Deno.test("for a minute nothing is removed, but for those who want less", async () => {
  const it = await taken(FIRST - 1);
  assertEquals(it.node.changes, []);
  await run(it, 1);
  assertEquals(it.node.addresses, undefined);

  const soon = setUp(new FakeIpvs(), 0);
  soon.node.active = 1;
  await soon.takeOver.takeOver();
  await soon.look();
  assertEquals(soon.node.addresses, undefined);
});

Deno.test("virtual servers that the kernel has not shown at first are removed as well", async () => {
  const hidden = "TCP  C0A80002:7581 rr\nTCP  C00002C8:7581 wlc\n";
  const it = await taken(FIRST, (node) => node.hidden = hidden);
  const removals = it.node.changes.filter((each) => each.startsWith("ipvsadm: "));
  assertEquals([removals.length, removals[1]], [2, "ipvsadm: -D -t 192.168.0.2:30081"]);
  assertEquals(it.node.addresses, undefined);
});

Deno.test("UDP flows are forgotten by virtual server", async () => {
  const it = await taken(GRACE / PERIOD + 1, (node) => node.udpFlows = 600);
  const udp = it.node.changes.filter((each) => each.startsWith("conntrack -D -f ipv4 -p udp"));
  assertEquals(udp, ["conntrack -D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 80"]);
});

Deno.test("connections that are open at the end of the grace time are ended", async () => {
  const it = await taken(GRACE / PERIOD - 1, (node) => node.active = 1);
  assertEquals(it.node.changes, []);
  await run(it, 2);
  assertEquals(it.node.addresses, undefined);
  // Until those who go on with them have heard of it.
  assertMatch(it.node.scripts.at(-1) ?? "", /ct state established reject with tcp reset/);
  assertEquals(it.takeOver.report, undefined);
  assertMatch(it.logger.lines.at(-1) ?? "", /"connectionsEnded":1/);
  await run(it, 60_000 / PERIOD);
  assertEquals(it.node.scripts.at(-1), GUARD_REMOVAL);
});

Deno.test("a check does not shorten the time in which ended connections get a reset", async () => {
  const it = await taken(GRACE / PERIOD + 1, (node) => node.active = 1);
  assertEquals(it.node.addresses, undefined);
  // As each check does that sees nothing left to remove.
  await it.takeOver.takeOver();
  await run(it, 2);
  assertEquals([it.takeOver.isUnderWay, it.node.scripts.includes(GUARD_REMOVAL)], [true, false]);
  await run(it, 60_000 / PERIOD);
  assertEquals([it.takeOver.isUnderWay, it.node.scripts.at(-1)], [false, GUARD_REMOVAL]);
});

Deno.test("where nft cannot make a guard the take-over ends all the same", async () => {
  const it = await taken(FIRST + 1, ({ missing }) => missing.add("nft"));
  assertEquals([it.node.addresses, it.takeOver.isUnderWay], [undefined, false]);
  assertEquals(it.logger.at("warn").length, 1);
});

Deno.test("a guard that another program removes comes back at the next look", async () => {
  const it = await taken(3, (node) => node.active = 1);
  assertEquals(it.node.scripts.length, 1);
  it.node.isGuarded = false;
  await run(it, 1);
  it.node.isGuarded = true;
  const scripts = it.node.scripts.length;
  assertEquals(it.node.scripts.at(-1), it.node.scripts[0]);
  await run(it, 3);
  assertEquals([scripts > 1, it.node.scripts.length], [true, scripts]);
});

Deno.test("nothing is removed while kube-proxy is at work", async () => {
  const it = setUp();
  it.state.obstacle = "kube-proxy is still at work";
  await it.takeOver.takeOver();
  await run(it, 20);
  assertEquals(it.node.changes, []);
  assertEquals(it.logger.at("warn").length, 1);
  it.state.obstacle = undefined;
  await run(it, 2);
  assertEquals(it.node.addresses, undefined);
});

Deno.test("everything stays guarded without ipvsadm", async () => {
  const it = await taken(20, ({ missing }) => missing.add("ipvsadm"));
  assertEquals(it.node.changes, []);
  assertEquals(it.logger.at("warn").length, 1);
  assertMatch(it.logger.at("warn")[0] ?? "", /package ipvsadm.*kube-proxy --cleanup/);
  assertMatch(it.takeOver.report?.obstacle ?? "", /ipvsadm/);
  it.node.missing.clear();
  await run(it, 2);
  assertEquals(it.node.addresses, undefined);
});

Deno.test("without ip it is said that kube-ipvs0 is left, where it is", async () => {
  for (const isThere of [true, false]) {
    const { node, takeOver, logger } = setUp();
    node.missing.add("ip");
    if (!isThere) node.addresses = undefined;
    assertEquals(await takeOver.prologue(), "");
    await takeOver.takeOver();
    assertEquals(logger.at("warn").length, isThere ? 1 : 0);
    if (isThere) assertMatch(logger.at("warn")[0] ?? "", /kube-ipvs0 exists.*package iproute2/);
    assertEquals(node.changes, []);
  }
});

Deno.test("where virtual servers cannot be read nothing is removed: connections may be open", async () => {
  const it = setUp();
  it.node.active = 1;
  it.node.missing.add("cat");
  const guarded = /elements = \{ 10\.96\.0\.10, 192\.0\.2\.10 \}/;
  assertMatch(await setUp(it.node).takeOver.prologue(), guarded);
  await it.takeOver.takeOver();
  assertMatch(it.node.scripts[0] ?? "", guarded);
  assertMatch(it.logger.at("warn")[0] ?? "", /cat \/proc\/net\/ip_vs: it is not installed/);
  await run(it, 20);
  assertEquals(it.node.changes, []);
  assertEquals(it.logger.at("warn").length, 2);
  assertMatch(it.takeOver.report?.obstacle ?? "", /cat \/proc\/net\/ip_vs: it is not installed/);
  it.node.missing.clear();
  await run(it, 1);
  assertEquals([it.takeOver.report?.connections, it.takeOver.report?.obstacle], [1, ""]);
  await run(it, 5);
  assertEquals(it.node.addresses, undefined);
});

Deno.test("a reading that fails within the grace time does not end it", async () => {
  const it = setUp();
  it.node.active = 1;
  await it.takeOver.takeOver();
  for (const command of ["cat", "ip addr", "cat /proc/net/ip_vs_conn"]) {
    it.node.failures.set(command, "Too many open files in system");
    await run(it, 3);
    it.node.failures.clear();
  }
  assertEquals(it.node.changes, []);
  assertEquals(it.takeOver.report?.connections, 1);
});

Deno.test("the interface goes without the module ip_vs", async () => {
  const failure = "cat: /proc/net/ip_vs: No such file or directory";
  const it = await taken(FIRST + 1, ({ failures }) => failures.set("cat", failure));
  assertEquals(it.node.changes.includes("ip link delete kube-ipvs0"), true);
  assertEquals(it.logger.at("warn"), []);
});

Deno.test("a look fails if the node's addresses cannot be read", async () => {
  const { runner } = new FakeIpvs();
  const failure = { code: 1, stdout: "", stderr: "Dump terminated: No such file or directory" };
  const kernel = new IpvsKernel({
    run: async (argv, stdin) =>
      argv.join(" ") === "ip addr show" ? failure : await runner.run(argv, stdin),
  });
  await assertRejects(() => kernel.look(), Error, "ip addr show: Dump terminated");
});

Deno.test("in iptables mode what cannot be read is not refused before our rules are there", async () => {
  const { node, takeOver } = setUp();
  node.missing.add("cat");
  await takeOver.prepare();
  assertEquals(node.scripts, []);
});

/** Of a clean-up. */
const OPTIONS = {
  kubeProxy: true,
  logger: new MemoryLogger(),
  excluded: ["192.0.2.128/25"],
  removed: () => Promise.resolve(),
  dryRun: false,
};

Deno.test("cleanup fails if virtual servers cannot be read", async () => {
  for (const command of ["cat /proc/net/ip_vs", "cat /proc/net/ip_vs_conn", "ip addr"]) {
    const node = new FakeIpvs();
    node.failures.set(command, "Too many open files");
    const [failure] = await cleanUp({ ...OPTIONS, runner: node.runner });
    assertMatch(failure?.message ?? "", new RegExp(`${command}.*: Too many open files.*coreutils`));
    assertEquals(node.changes, []);
  }
});

Deno.test("without ipset and conntrack the rest is removed", async () => {
  const it = await taken(FIRST + 1, ({ missing }) => missing.add("ipset").add("conntrack"));
  assertEquals(it.node.addresses, undefined);
  assertEquals(it.logger.at("warn"), []);
});

Deno.test("what cannot be removed is tried again", async () => {
  const failure = "RTNETLINK answers: Operation not permitted";
  const it = await taken(FIRST + 2, ({ failures }) => failures.set("ip link", failure));
  assertEquals(it.logger.at("warn").length, 1);
  assertMatch(it.logger.at("warn")[0] ?? "", /ip link delete kube-ipvs0: .*not permitted/);
  it.node.failures.clear();
  await run(it, 2);
  assertEquals(it.takeOver.report, undefined);
});

Deno.test("cleanup removes the guard and the virtual servers at once", async () => {
  const node = new FakeIpvs();
  node.active = 5;
  node.isGuarded = false;
  let printed = "";
  const removed = ({ script }: Removal) => Promise.resolve(void (printed += script));
  const options = { ...OPTIONS, runner: node.runner, removed };
  assertEquals(await cleanUp({ ...options, dryRun: true }), []);
  assertEquals(node.changes, []);
  assertEquals(
    printed,
    `# virtual server tcp 10.96.0.10:80
# virtual server udp 10.96.0.10:80
# virtual server tcp 192.168.0.2:30080
# virtual server tcp 192.168.0.2:443
# ip link delete kube-ipvs0
# ipset destroy KUBE-CLUSTER-IP
# ipset destroy KUBE-6-LOAD-BALANCER-SOURCE-CID
`,
  );
  assertEquals(await cleanUp(options), []);
  assertEquals(node.addresses, undefined);
  assertEquals(await cleanUp(options), []);
});

Deno.test("cleanup without ipvsadm fails", async () => {
  const node = new FakeIpvs();
  node.missing.add("ipvsadm");
  const [failure] = await cleanUp({ ...OPTIONS, runner: node.runner });
  assertMatch(failure?.message ?? "", /ipvsadm -R: it is not installed.*kube-proxy --cleanup/);
});

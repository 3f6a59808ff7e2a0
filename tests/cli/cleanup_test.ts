import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { cleanup } from "../../lib/cli/cleanup.ts";
import { FatalError } from "../../lib/model/values/errors.ts";
import type { LockHolder } from "../../lib/model/ports/runtime.ts";
import { ManualClock, MemoryLogger } from "../support/clock_and_log.ts";
import { configuration } from "../support/configuration.ts";
import { FakeNode, KUBE_PROXY_RULES, SIGNPOST_RULES } from "./fake_node.ts";

/** A node with everything of both proxies. */
function fullNode(): FakeNode {
  const node = new FakeNode();
  node.tables.add("inet signpost").add("ip kube-proxy").add("ip6 kube-proxy").add("inet mine");
  node.saved.set("iptables-nft-save", SIGNPOST_RULES);
  node.saved.set("iptables-legacy-save", KUBE_PROXY_RULES);
  return node;
}

/** Returns the context of the command on this node. */
function contextOf(node: FakeNode, holder?: LockHolder) {
  const runtime = {
    lock: { take: () => !holder, holder: () => Promise.resolve(holder) },
    pid: 4712,
    runner: node.runner,
    streamer: { async *lines() {} },
    clock: new ManualClock(),
    hasIpv6: () => true,
    osRelease: () => "6.12.0",
    print: (text: string) => node.print(text),
  };
  return { configuration: configuration(), runtime, force: false };
}

async function run(
  node: FakeNode,
  { kubeProxy = false, dryRun = false }: { kubeProxy?: boolean; dryRun?: boolean } = {},
): Promise<MemoryLogger> {
  const logger = new MemoryLogger();
  await cleanup({ kubeProxy, dryRun, ...contextOf(node), logger });
  return logger;
}

const RESTORED = "-X KUBE-MARK-MASQ, -X KUBE-SERVICES";

Deno.test("only signpost's rules go", async () => {
  const node = fullNode();
  const logger = await run(node);
  assertEquals(node.changes, [
    "nft: delete table inet signpost",
    `iptables-nft-restore: ${RESTORED}`,
  ]);
  assertEquals(logger.lines, [
    'info removed from nftables {"commands":"delete table inet signpost"}',
    'info removed from iptables {"program":"iptables-nft-restore"}',
  ]);
  assertEquals(node.printed, "");
});

Deno.test("every failure of a program is reported", async () => {
  const node = fullNode();
  node.failures.set("nft", "Error: Could not process rule: Device or resource busy");
  node.failures.set("iptables-nft-restore", "iptables-nft-restore: line 9 failed");
  const logger = new MemoryLogger();
  const error = await assertRejects(
    () => cleanup({ kubeProxy: true, dryRun: false, ...contextOf(node), logger }),
    FatalError,
  );
  assertMatch(error.message, /the kernel is busy; .*; iptables-nft-restore: .*line 9 failed/);
  assertEquals(node.changes, [`iptables-legacy-restore: ${RESTORED}`]);
});

Deno.test("chains that others lead to are emptied, with a warning", async () => {
  const node = new FakeNode();
  const foreign = SIGNPOST_RULES.replace(
    "COMMIT",
    ":MINE - [0:0]\n-A MINE -j KUBE-MARK-MASQ\nCOMMIT",
  );
  node.saved.set("iptables-nft-save", foreign);
  const logger = await run(node);
  assertEquals(node.changes, ["iptables-nft-restore: -X KUBE-SERVICES"]);
  assertMatch(logger.at("warn")[0] ?? "", /it is emptied, not removed.*nat KUBE-MARK-MASQ/);
});

Deno.test("what a hand-over has left is signpost's", async () => {
  const node = new FakeNode();
  node.saved.set(
    "iptables-nft-save",
    `*filter
:FORWARD DROP [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
COMMIT
`,
  );
  await run(node);
  assertEquals(node.changes, ["iptables-nft-restore: -X KUBE-FORWARD"]);
});

Deno.test("a setting that stays is reported", async () => {
  const node = fullNode();
  node.sysctls.set("net.ipv4.conf.all.route_localnet", "1");
  const logger = await run(node, { kubeProxy: true });
  const [line = "", ...others] = logger.lines.filter((line) =>
    line.includes("route_localnet is still 1")
  );
  assertStringIncludes(
    line,
    "as kube-proxy's iptables mode needs it; without kube-proxy, neighbours",
  );
  assertEquals(others, []);
  assertEquals(node.sysctls.get("net.ipv4.conf.all.route_localnet"), "1");
});

Deno.test("nothing is removed beside a daemon without --force", async () => {
  const holder = { pid: 4711, version: "0.1.0", since: "2026-01-02T03:04:05.000Z" };
  const beside = (options: { readonly force?: boolean; readonly dryRun?: boolean }) => {
    const node = fullNode();
    const context = { ...contextOf(node, holder), kubeProxy: false, dryRun: false, ...options };
    return { node, cleaning: cleanup({ ...context, logger: new MemoryLogger() }) };
  };
  const refused = beside({});
  await assertRejects(() => refused.cleaning, FatalError, "(pid 4711, version 0.1.0, since");
  assertEquals(refused.node.changes, []);
  for (const options of [{ force: true }, { dryRun: true }]) {
    const { node, cleaning } = beside(options);
    await cleaning;
    assertEquals(
      [node.changes.length, node.printed === ""],
      options.force ? [2, true] : [0, false],
    );
  }
});

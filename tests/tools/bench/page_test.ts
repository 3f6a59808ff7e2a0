/** The tables of `bench/README.md`. */
import { assertEquals, assertMatch } from "@std/assert";
import { renderPerformancePage } from "../../../bench/page.ts";
import type { Pause } from "../../../bench/parts/pause.ts";
import type { Results } from "../../../bench/results.ts";

function paused(mode: Pause["mode"], minSyncPeriod: Pause["minSyncPeriod"], p50: number): Pause {
  const changes = {
    perSecond: 2,
    count: 10,
    p50,
    p99: 2 * p50,
    firstFifth: p50,
    lastFifth: p50,
    pending: 0,
    syncs: 10,
    operationsPerChange: 12,
    bytesPerChange: 600,
  };
  const paced = { changes, busy: { own: 0.01, children: 0.02 }, syncing: 0.1, longest: 40 };
  return { mode, minSyncPeriod, lone: paced, burst: paced };
}

const RESULTS: Results = {
  date: "2026-11-23",
  machine: { kernel: "6.18", cores: 2, cpu: "x", nft: "nftables v1.0.6", deno: "2.9.6" },
  program: "x",
  measured: {
    start: "commit abc1234 on 2026-11-23, load average 0.1 before",
    pause: "commit abc1234 on 2026-11-23, load average 0.1 before",
    packets: "commit def5678 on 2026-11-22, load average 0.2 before",
  },
  sizes: [{
    services: 1_000,
    endpointsEach: 10,
    pause: [
      paused("nftables", "adaptive", 10),
      paused("nftables", "1s", 500),
      paused("iptables", "adaptive", 30),
      paused("iptables", "1s", 600),
    ],
  }],
  firstRequest: 200,
};

const PAGE = "# How fast\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nmore\n";

Deno.test("bench: the page says which part was measured when, and keeps what is around its marks", () => {
  const page = renderPerformancePage(PAGE, RESULTS);
  assertMatch(page, /^# How fast\n<!-- bench: begin -->\nMeasured on 2 cores/);
  assertMatch(page, /^- start, pause: commit abc1234 on .*\n- packets: commit def5678 on /m);
  assertMatch(page, /```\n<!-- bench: end -->\nmore\n$/);
  assertEquals(renderPerformancePage(page, RESULTS), page);
});

Deno.test("bench: the adaptive pause stands beside the fixed second of its own mode", () => {
  const page = renderPerformancePage(PAGE, RESULTS);
  assertMatch(page, /^nftables, 1,000 services, 2\/s, p50 +10.0 ms +500 ms +0.02 x$/m);
  assertMatch(page, /^iptables, 1,000 services, 50\/s, p99 +60.0 ms +1200 ms +0.05 x$/m);
});

import { assert, assertEquals, assertMatch } from "@std/assert";
import { PeakWatch } from "../../bench/peaks.ts";
import type { Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, ENDPOINT_HOSTS, largeService, PORT, service, slice } from "./cluster.ts";
import { killMonitor } from "./soak_faults.ts";
import { both, Stage, syncs, WEB_FLOWS, WEBS } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("drift is noticed and repaired");

const REPAIRS = "signpost_drift_repairs_total";
const VIP = `${ADDRESSES[4].clusterIP} . tcp . 80`;

/** Commands of another program, and the log lines about them. */
const DAMAGES: readonly (readonly [what: string, command: string, missing: RegExp])[] = [
  ["flushes the ruleset", "nft flush ruleset", /missing="the whole table"/],
  ["deletes the table", "nft delete table inet signpost", /missing="the whole table"/],
  [
    "deletes an element",
    `nft delete element inet signpost services4 { ${VIP} }`,
    /missing="element of services4"/,
  ],
  [
    "flushes a map",
    "nft flush map inet signpost endpoints-udp6",
    /missing="element of endpoints-udp6"/,
  ],
  [
    "deletes a rule",
    "nft delete rule inet signpost nat-prerouting handle $(nft -a list chain inet signpost " +
    "nat-prerouting | sed -n 's/.*jump services # handle //p')",
    /missing="rule of nat-prerouting"/,
  ],
  ["flushes a chain", "nft flush chain inet signpost services", /missing="rule of services"/],
  ["adds a rule", "nft insert rule inet signpost services drop", /added="rule of services"/],
];

test("what another program removes is put back, counted and logged", async (test) => {
  await using stage = await Stage.create({ objects: WEBS });
  await using signpost = await stage.startSynced();
  const whole = await stage.table();
  for (const [what, command, missing] of DAMAGES) {
    await test.step(`one that ${what}`, async () => {
      const [before, said] = [await stage.metric(REPAIRS), signpost.log.length];
      const fulls = syncs(signpost, "full");
      await stage.network.run(NODE, ["sh", "-ec", command]);
      await signpost.until("the repair", async () => {
        assertEquals(await stage.table(), whole);
        return await stage.metric(REPAIRS) === before + 1;
      });
      assertMatch(signpost.log.slice(said), /WARN another program has changed our rules/);
      assertMatch(signpost.log.slice(said), missing);
      const isAll = missing.source.includes("whole table");
      assertEquals(
        syncs(signpost, "full") - fulls,
        isAll ? 1 : 0,
        "what differs is put back by parts",
      );
      assertMatch(signpost.log.slice(said), /by="nft \(pid \d+\)"/);
      await stage.flowsBecome(signpost, WEB_FLOWS);
    });
  }
});

test("what another program removes while syncs run is put back too", async (test) => {
  await using stage = await Stage.create({ objects: WEBS, config: BUSY });
  await using signpost = await stage.startSynced();
  for (const [what, command] of DAMAGES) {
    await test.step(`one that ${what}`, async () => {
      const before = await stage.metric(REPAIRS);
      using churn = startChurn(stage);
      await untilPartials(signpost, 5);
      await stage.network.run(NODE, ["sh", "-ec", command]);
      await signpost.until("the repair", async () => await stage.metric(REPAIRS) > before);
      await untilPartials(signpost, 5);
      churn.stop();
      await stage.tableBecomesExpected(signpost);
      await stage.flowsBecome(signpost, WEB_FLOWS);
    });
  }
});

test("signpost's own syncs are never taken for changes by others", async () => {
  await using stage = await Stage.create({ objects: WEBS, config: BUSY });
  await using signpost = await stage.startSynced();
  using churn = startChurn(stage);
  await untilPartials(signpost, 200);
  churn.stop();
  await stage.tableBecomesExpected(signpost);
  assertEquals(await stage.metric(REPAIRS), 0);
  assertEquals(signpost.log.includes("another program"), false);
  assertEquals(syncs(signpost, "full"), 1);
});

test("the table is compared where nft monitor dies", async () => {
  await using stage = await Stage.create({ objects: WEBS });
  await using signpost = await stage.startSynced();
  await signpost.until("the first look", () => LOOKED.test(signpost.log));
  const said = signpost.log.length;
  await killMonitor(signpost);
  await signpost.until("the comparison", () => {
    const [, after] = signpost.log.slice(said).split("nft monitor ended");
    return after !== undefined && LOOKED.test(after);
  });
  assertEquals([await stage.metric(REPAIRS), syncs(signpost, "full")], [0, 1]);
  assertEquals(signpost.log.includes("another program"), false);
});

test("an nft monitor that stands still is started again", async () => {
  await using stage = await Stage.create({ objects: WEBS });
  await using signpost = await stage.startSynced();
  await signpost.until("the first look", () => LOOKED.test(signpost.log));
  await new Promise((resolve) => setTimeout(resolve, 11_000));
  await killMonitor(signpost, "SIGSTOP");
  const partials = syncs(signpost, "partial");
  stage.apply(
    ...both((a) => [
      service(a, {
        name: `other${a.family}`,
        spec: { clusterIP: a.clusterIP2, clusterIPs: [a.clusterIP2] },
      }),
    ]),
  );
  await signpost.until("a change", () => syncs(signpost, "partial") > partials);
  await stage.network.run(NODE, `nft delete element inet signpost services4 { ${VIP} }`.split(" "));
  await signpost.waitForLog(/WARN nft monitor does not report what signpost wrote/);
  await signpost.until("the repair", async () => await stage.metric(REPAIRS) === 1);
  await stage.flowsBecome(signpost, WEB_FLOWS);
});

// By itself: its comparisons hold up everything else in this process.
Deno.test("one full sync repairs a large table after nft monitor was away", async () => {
  const large = Array.from({ length: 60 }, (_, i) => largeService(i)).flat();
  await using stage = await Stage.create({ objects: [...WEBS, ...large] });
  await using signpost = await stage.startSynced();
  await signpost.until("the first look", () => LOOKED.test(signpost.log));
  const frontend = `services4 { 10.96.200.7 . tcp . ${PORT} }`;
  const slot = `endpoints-tcp4 { 10.96.200.9 . ${PORT} . 5 }`;
  const nft = (verb: string, what: string) =>
    stage.network.run(NODE, ["nft", ...`${verb} element inet signpost ${what}`.split(" ")]);
  await using peak = new PeakWatch(signpost.pid);
  using churn = startChurn(stage, 60);
  await untilPartials(signpost, 5);
  churn.stop();
  await stage.tableBecomesExpected(signpost);
  assertEquals(syncs(signpost, "full"), 1);
  await killMonitor(signpost);
  await Promise.all([nft("delete", frontend), nft("delete", slot)]);
  await signpost.until("the full sync", () => syncs(signpost, "full") === 2);
  for (const each of [frontend, slot]) await nft("get", each);
  assertMatch(signpost.log, /INFO read the table back, and wrote what differed operations=1/);
  assertMatch(signpost.log, /full sync reason="nft monitor ended or lost events"/);
  assert(peak.peaks.child > 10e6 && peak.peaks.child < 100e6, `${peak.peaks.child}`);
  // It hears again, and what the full sync did was nothing to it.
  await nft("delete", slot);
  await signpost.until("the repair", async () => await stage.metric(REPAIRS) === 1);
  await stage.tableBecomesExpected(signpost);
  assertEquals(syncs(signpost, "full"), 2);
});

test("in iptables mode rules that another program removes are put back", async (test) => {
  const iptables = { minSyncPeriod: "50ms", syncPeriod: "1s" };
  await using stage = await Stage.create({
    objects: WEBS,
    config: { mode: "iptables", iptables },
  });
  await using signpost = stage.start();
  await stage.flowsBecome(signpost, WEB_FLOWS);
  for (const program of ["iptables", "ip6tables"]) {
    await test.step(`flushed by ${program}`, async () => {
      const before = await stage.metric(REPAIRS);
      const flush = `${program} -t nat -F; ${program} -t nat -X`;
      await stage.network.run(NODE, ["sh", "-ec", flush]);
      await signpost.until("the repair", async () => await stage.metric(REPAIRS) > before);
      // A look between both commands finds the chains empty.
      assertMatch(
        signpost.log,
        new RegExp(`another program .*missing="(?:rules of )?${program} nat`),
      );
      await stage.flowsBecome(signpost, WEB_FLOWS);
    });
  }
  const jump = `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES`;
  const restore = "iptables-save -t nat | sed s/:8080$/:8081/ | iptables-restore";
  const damages = [
    ["a jump is deleted", `iptables -t nat -D PREROUTING ${jump}`, "nat jump PREROUTING KUBE-S"],
    ["an old state is restored", restore, "rules of iptables nat"],
  ] as const;
  for (const [i, [what, command, missing]] of damages.entries()) {
    await test.step(what, async () => {
      const before = await stage.metric(REPAIRS);
      await stage.network.run(NODE, ["sh", "-ec", command]);
      // Our own write does not hide it.
      const spec = { clusterIP: `10.96.0.7${i}` };
      stage.apply(service(ADDRESSES[4], { name: `extra${i}`, spec }));
      await signpost.until("the repair", async () => await stage.metric(REPAIRS) > before);
      assertMatch(signpost.log, new RegExp(`another program .*missing="[^"]*${missing}`));
      await stage.flowsBecome(signpost, WEB_FLOWS);
      assertEquals(await stage.metric(REPAIRS), before + 1);
    });
  }
});

/** Churn has so many syncs a second that a test need not wait for them. */
const BUSY = { nftables: { minSyncPeriod: "10ms", syncPeriod: "30s" } };

const LOOKED = /the table has the desired rules/;

/**
 * Changes endpoints all the time, and adds and removes another Service.
 *
 * @param interval milliseconds between two changes
 */
function startChurn(stage: Stage, interval = 20): Disposable & { stop(): void } {
  let round = 0;
  const extra = service(ADDRESSES[4], { name: "extra", spec: { clusterIP: "10.96.0.77" } });
  const timer = setInterval(() => {
    const count = 1 + round % ENDPOINT_HOSTS.length;
    stage.apply(
      ...both((a) => [slice(a, ENDPOINT_HOSTS.slice(0, count), { service: `web${a.family}` })]),
    );
    if (round % 7 === 0) stage.apply(extra);
    if (round % 7 === 4) stage.api.store.delete("Service", "shop/extra");
    round++;
  }, interval);
  const stop = () => {
    clearInterval(timer);
    stage.apply(...WEBS);
    stage.api.store.delete("Service", "shop/extra");
  };
  return { stop, [Symbol.dispose]: stop };
}

/** Waits for so many partial syncs from now on. */
async function untilPartials(signpost: Signpost, count: number): Promise<void> {
  const before = syncs(signpost, "partial");
  await signpost.until(
    `${count} partial syncs`,
    () => syncs(signpost, "partial") >= before + count,
  );
}

import { assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { ConntrackCleaner } from "../../lib/conntrack/conntrack.ts";
import type { DesiredServicePort, DesiredState } from "../../lib/model/kernel/desired.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { FakeConntrack, type Flow, flow } from "./fake_conntrack.ts";
import { ManualClock, MemoryLogger } from "../support/clock_and_log.ts";
import { changeOf, deletedIn, endpointsOf, servicePort, stateOf } from "./states.ts";

const A = "10.244.0.1:5353";
const B = "10.244.0.2:5353";
const VIP = "10.96.0.10:53";
const TO_A = flow(`10.0.0.1:1000 > ${VIP} > ${A}`);
const TO_B = flow(`10.0.0.2:1000 > ${VIP} > ${B}`);
const UNRELATED = flow("10.0.0.1:1000 > 8.8.8.8:53");
const EMPTY = stateOf([]);
const OF_A = stateOf([servicePort([A])]);
const OF_B = stateOf([servicePort([B])]);
const FAILURE = { code: 1, stdout: "", stderr: "Operation not permitted\n" };

/** A cleaner with all that it works with. */
class Bench {
  readonly clock = new ManualClock();
  readonly log = new MemoryLogger();
  readonly conntrack: FakeConntrack;
  readonly cleaner: ConntrackCleaner;

  constructor(flows: readonly Flow[]) {
    this.conntrack = new FakeConntrack(flows);
    this.cleaner = new ConntrackCleaner({
      runner: this.conntrack,
      clock: this.clock,
      logger: this.log,
      localAddresses: () => ["192.0.2.10"],
    });
  }

  async sync(before: DesiredState, after: DesiredState): Promise<number> {
    return deletedIn(await this.cleaner.reconcile(changeOf(before, after), after));
  }

  get processes(): number {
    return this.conntrack.processes.length;
  }
}

Deno.test("what a change has made stale is listed narrowly and deleted", async () => {
  const bench = new Bench([TO_A, TO_B, UNRELATED]);
  bench.conntrack.beforeEach = () => bench.clock.pass(250);
  const cleaned = await bench.cleaner.reconcile(changeOf(OF_A, OF_B), OF_B);
  assertEquals(bench.conntrack.flows, [TO_B, UNRELATED]);
  assertEquals(bench.conntrack.processes, [
    "conntrack -L -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53",
    "conntrack -D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.0.1 --reply-port-src 5353",
  ]);
  const expected = { deleted: 1, seconds: 0.5 };
  assertEquals(cleaned, new Map([[4, expected]]));
});

Deno.test("no process runs where no UDP service port is affected", async () => {
  const bench = new Bench([TO_A]);
  await bench.sync(OF_A, stateOf([servicePort([A, B])]));
  const tcp = (endpoint: string) => stateOf([servicePort([endpoint], { protocol: "tcp" })]);
  await bench.sync(tcp(A), tcp(B));
  await bench.cleaner.reconcile(undefined, EMPTY);
  assertEquals([bench.processes, bench.cleaner.unfinished], [0, false]);
});

Deno.test("without a change everything is looked at", async () => {
  const bench = new Bench([TO_A, TO_B, UNRELATED]);
  const deleted = deletedIn(await bench.cleaner.reconcile(undefined, OF_B));
  assertEquals([deleted, bench.conntrack.flows], [1, [TO_B, UNRELATED]]);
});

Deno.test("a missing conntrack is warned of once, and not asked for again", async () => {
  const bench = new Bench([TO_A]);
  bench.conntrack.isMissing = true;
  await bench.sync(OF_A, OF_B);
  bench.conntrack.isMissing = false;
  bench.clock.pass(3_600_000);
  await bench.sync(OF_A, OF_B);
  await bench.cleaner.reconcile(undefined, OF_B);
  assertEquals([bench.processes, bench.cleaner.unfinished], [1, false]);
  assertEquals(bench.log.warnings.length, 1);
  assertMatch(bench.log.warnings[0] ?? "", /install conntrack-tools and restart/);
});

Deno.test("a conntrack that hangs or cannot be started is tried again after a pause", async () => {
  const bench = new Bench([TO_A, TO_B]);
  bench.conntrack.isFailing = true;
  await bench.sync(OF_A, OF_B);
  assertEquals([bench.processes, bench.cleaner.unfinished], [1, true]);
  assertMatch(bench.log.warnings[0] ?? "", /conntrack did not end; trying again later/);
  bench.conntrack.isFailing = false;
  bench.clock.pass(10_000);
  await bench.sync(OF_B, OF_B);
  assertEquals([bench.conntrack.flows, bench.cleaner.unfinished], [[TO_B], false]);
});

Deno.test("what failed is made good for later, of a deleted Service too, and warned of once", async () => {
  const bench = new Bench([TO_A, TO_B]);
  bench.conntrack.failure = FAILURE;
  await bench.sync(OF_A, EMPTY);
  assertEquals([bench.processes, bench.cleaner.unfinished], [1, true]);
  await bench.sync(EMPTY, EMPTY);
  assertEquals(bench.processes, 1, "it pauses after a failure");
  bench.clock.pass(10_000);
  await bench.sync(EMPTY, EMPTY);
  assertEquals([bench.processes, bench.log.warnings.length], [2, 1]);
  bench.conntrack.failure = undefined;
  bench.clock.pass(10_000);
  assertEquals(await bench.sync(EMPTY, EMPTY), 1);
  assertEquals([bench.conntrack.flows, bench.cleaner.unfinished], [[TO_B], false]);
});

Deno.test("what changes during the pause after a failure is made good for as well", async () => {
  const other = servicePort([A], { name: "default/other", clusterIPs: ["10.96.0.11"] });
  const toOther = flow(`10.0.0.1:1000 > 10.96.0.11:53 > ${A}`);
  const bench = new Bench([TO_A, toOther, TO_B]);
  bench.conntrack.failure = FAILURE;
  const both = stateOf([servicePort([A]), other]);
  const next = stateOf([servicePort([B]), other]);
  await bench.sync(both, next);
  bench.conntrack.failure = undefined;
  await bench.sync(next, OF_B);
  bench.clock.pass(10_000);
  assertEquals(await bench.sync(OF_B, OF_B), 2);
  assertEquals(bench.conntrack.flows, [TO_B]);
});

Deno.test("what a sync that failed would have made stale is deleted after the next one", async () => {
  const bench = new Bench([TO_A, TO_B, UNRELATED]);
  atOnce(bench.cleaner.remembering(changeOf(OF_A, OF_A), OF_A));
  assertEquals(bench.cleaner.unfinished, false);
  atOnce(bench.cleaner.remembering(changeOf(OF_A, EMPTY), EMPTY));
  assertEquals([bench.processes, bench.cleaner.unfinished], [0, true]);
  assertEquals(await bench.sync(EMPTY, EMPTY), 1);
  assertEquals([bench.conntrack.flows, bench.cleaner.unfinished], [[TO_B, UNRELATED], false]);
});

Deno.test("an endpoint that is back after a failure keeps its flows", async () => {
  const bench = new Bench([TO_A]);
  bench.conntrack.failure = FAILURE;
  await bench.sync(OF_A, EMPTY);
  bench.conntrack.failure = undefined;
  await bench.sync(EMPTY, OF_A);
  bench.clock.pass(10_000);
  assertEquals(await bench.sync(OF_A, OF_A), 0);
  assertEquals(bench.conntrack.flows, [TO_A]);
});

Deno.test("a clean-up that takes too long is cut short, and goes on later", async () => {
  const ports = Array.from(
    { length: 100 },
    (_, index) => servicePort([B], { name: `default/s${index}`, clusterIPs: [`10.96.1.${index}`] }),
  );
  const flows = ports.map((port) => flow(`10.0.0.1:1000 > ${port.clusterIPs[0]}:53 > ${A}`));
  const bench = new Bench(flows);
  bench.conntrack.beforeEach = () => bench.clock.pass(1_500);
  const state = stateOf(ports);
  await bench.cleaner.reconcile(undefined, state);
  assertEquals([bench.conntrack.batches, bench.cleaner.unfinished], [[32], true]);
  for (let round = 0; round < 3; round++) {
    bench.clock.pass(10_000);
    await bench.sync(state, state);
  }
  assertEquals(bench.conntrack.batches, [32, 32, 32, 4]);
  assertEquals([bench.conntrack.flows, bench.cleaner.unfinished], [[], false]);
});

const endpoints = fc.subarray([A, B, "10.244.0.1:5354", "10.244.0.3:5353"]);
const ports = fc.tuple(
  ...["10.96.0.10", "10.96.0.11", "fd00:10:96::10"].map((address) =>
    fc.option(fc.record({
      endpoints,
      protocol: fc.constantFrom("udp" as const, "udp" as const, "tcp" as const),
      nodePort: fc.constantFrom(0, 30053),
      port: fc.constantFrom(53, 5353),
    })).map((fields) =>
      fields && servicePort(
        address.includes(":")
          ? fields.endpoints.map((each) => each.replace(/^[^:]+/, "[fd00:10:244::1]"))
          : fields.endpoints,
        {
          name: `default/s${address.at(-1)}${address.length}`,
          family: address.includes(":") ? 6 : 4,
          clusterIPs: [address],
          protocol: fields.protocol,
          port: fields.port,
          nodePort: address.endsWith("10") ? fields.nodePort : 0,
        },
      )
    )
  ),
);
const states = ports.map((each) => stateOf(each.filter((port) => port !== null)));

/** What the rules of a state do to a new flow: the endpoints that it may get; `undefined`: nothing. */
function endpointsFor({ dst, dport }: Flow, state: DesiredState): readonly string[] | undefined {
  const all = [...state.services.values()].flat().filter(({ protocol }) => protocol === "udp");
  const takes = (port: DesiredServicePort) =>
    port.clusterIPs.includes(dst) && port.port === dport ||
    port.nodePort === dport && dst === "192.0.2.10" && port.family === 4;
  const port = all.find(takes);
  return port && endpointsOf(port);
}

Deno.test("after any change no stale flow is left that the rules made, and every good one is", async () => {
  const clients = ["10.0.0.1:1000", "10.0.0.2:1000"];
  const destinations = ["10.96.0.10:53", "10.96.0.11:5353", "192.0.2.10:30053", "8.8.8.8:30053"];
  const targets = [A, B, "10.244.0.1:5354", "172.17.0.2:53"];
  const every = clients.flatMap((client) =>
    destinations.flatMap((destination) => [
      flow(`${client} > ${destination}`),
      ...targets.map((target) => flow(`${client} > ${destination} > ${target}`)),
    ])
  );
  const sourceOf = (each: Flow) => `${each.replySrc}:${each.replySport}`;
  await fc.assert(fc.asyncProperty(states, states, async (before, after) => {
    /** Flows as they can be under the rules of `before`, and those of other programs. */
    const possible = every.filter((each) => {
      const allowed = endpointsFor(each, before);
      return allowed === undefined || allowed.includes(sourceOf(each));
    });
    const bench = new Bench(possible);
    await bench.sync(before, after);
    const expected = possible.filter((each) => {
      const now = endpointsFor(each, after);
      if (now !== undefined) return now.includes(sourceOf(each));
      return endpointsFor(each, before) === undefined;
    });
    assertEquals(bench.conntrack.flows, expected);

    const again = new Bench(every);
    await again.cleaner.reconcile(undefined, after);
    const left = every.filter((each) =>
      endpointsFor(each, after)?.includes(sourceOf(each)) ?? true
    );
    assertEquals(again.conntrack.flows, left);
  }));
});

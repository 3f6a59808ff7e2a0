import { assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { ConntrackCleaner } from "../../lib/conntrack/conntrack.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
} from "../../lib/model/kernel/desired.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { FakeConntrack, type Flow, flow } from "./fake_conntrack.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";
import { changeOf, endpointsOf, NODE, servicePort, stateOf } from "./states.ts";

const A = "10.244.0.1:5353";
const B = "10.244.0.2:5353";
const C = "10.244.0.3:5353";
const VIP = "10.96.0.10:53";
const TO_A = flow(`10.0.0.1:1000 > ${VIP} > ${A}`);
const TO_B = flow(`10.0.0.2:1000 > ${VIP} > ${B}`);
const TO_C = flow(`10.0.0.3:1000 > ${VIP} > ${C}`);
const UNRELATED = flow("10.0.0.1:1000 > 8.8.8.8:53");
const EMPTY = stateOf([]);
const OF_A = stateOf([servicePort([A])]);
const OF_B = stateOf([servicePort([B])]);
const OF_C = stateOf([servicePort([C])]);
const FAILURE = { code: 1, stdout: "", stderr: "Operation not permitted\n" };
const PAUSE = 1_000;
const RETRY_PAUSE = 10_000;

/** A cleaner with all that it works with; its conntrack answers only when it is let. */
class Bench {
  readonly clock = new ManualClock();
  readonly log = new MemoryLogger();
  readonly conntrack: FakeConntrack;
  readonly state: DesiredState;
  readonly cleaned: (readonly [family: number, deleted: number, seconds: number])[] = [];
  readonly stop = new AbortController();
  gate: Promise<void> = Promise.resolve();
  readonly #cleaner: ConntrackCleaner;

  constructor(flows: readonly Flow[], state: DesiredState = EMPTY) {
    this.conntrack = new FakeConntrack(flows);
    this.state = { ...state };
    const runner: ProcessRunner = {
      run: async (argv) => {
        await this.gate;
        return await this.conntrack.run(argv);
      },
    };
    this.#cleaner = new ConntrackCleaner({
      state: this.state,
      runtime: { runner, clock: this.clock, addresses: () => ["192.0.2.10"] },
      metrics: {
        conntrackReconciled: (family, { deleted, seconds }) =>
          this.cleaned.push([family, deleted, seconds]),
      },
      logger: this.log,
      signal: this.stop.signal,
    });
  }

  /** A sync to a state is over, and so is the clean-up that it starts, if conntrack is let. */
  async sync(next: DesiredState, { done = true, full = false } = {}): Promise<void> {
    const change = changeOf({ ...this.state }, next);
    Object.assign(this.state, next);
    atOnce(this.#cleaner.following({
      change,
      applied: done ? "partial" : undefined,
      isFull: full,
    }));
    await settle();
  }

  get flows(): readonly Flow[] {
    return this.conntrack.flows;
  }

  get processes(): number {
    return this.conntrack.processes.length;
  }
}

Deno.test("what a change has made stale is listed narrowly and deleted", async () => {
  const bench = new Bench([TO_A, TO_B, UNRELATED], OF_A);
  bench.conntrack.beforeEach = () => bench.clock.pass(250);
  await bench.sync(OF_B);
  assertEquals(bench.flows, [TO_B, UNRELATED]);
  assertEquals(bench.conntrack.processes, [
    "conntrack -L -f ipv4 -p udp --orig-port-dst 53",
    "conntrack -D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.0.1 --reply-port-src 5353",
  ]);
  assertEquals(bench.cleaned, [[4, 1, 0.5]]);
});

Deno.test("no process runs where only endpoints of TCP change", async () => {
  const tcp = (endpoint: string) => stateOf([servicePort([endpoint], { protocol: "tcp" })]);
  const bench = new Bench([TO_A], tcp(A));
  await bench.sync(tcp(B));
  assertEquals(bench.processes, 0);
});

Deno.test("TCP connections that went past a new Service are deleted, others are not", async () => {
  const past = { ...flow(`10.0.0.1:1000 > ${VIP}`), protocol: "tcp" as const };
  const ofUdp = flow(`10.0.0.1:1000 > ${VIP}`);
  const elsewhere = { ...UNRELATED, protocol: "tcp" as const };
  const bench = new Bench([past, ofUdp, elsewhere]);
  await bench.sync(stateOf([servicePort([A], { protocol: "tcp" })]));
  assertEquals(bench.flows, [ofUdp, elsewhere]);
  assertEquals(bench.conntrack.processes, [
    "conntrack -L -f ipv4 -p tcp --state SYN_SENT --orig-port-dst 53",
    "conntrack -D -f ipv4 -p tcp --state SYN_SENT --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.96.0.10 --reply-port-src 53 -w 0",
  ]);
});

Deno.test("where other addresses of the node may take node ports, everything is looked at", async () => {
  const ports = [servicePort([A], { nodePort: 30053 })];
  const past = flow("10.0.0.1:1000 > 192.0.2.10:30053");
  const named = (cidrs: string[], serviceCIDRs: string[] = []): DesiredNode => {
    const nodePortAddresses = { type: "cidrs" as const, cidrs };
    const family = { ...NODE.families[4], nodePortAddresses, serviceCIDRs };
    return { ...NODE, families: { ...NODE.families, 4: family } };
  };
  const bench = new Bench([past, TO_A], stateOf(ports, named([])));
  await bench.sync(stateOf(ports, named([], ["10.96.0.0/16"])));
  assertEquals(bench.flows, [past, TO_A], "a ServiceCIDR makes nothing stale");
  await bench.clock.advance(PAUSE);
  await bench.sync(stateOf(ports, named(["192.0.2.0/24"])));
  assertEquals(bench.flows, [TO_A]);
});

Deno.test("changes that come at once are cleaned once a second", async () => {
  const bench = new Bench([TO_A, TO_B, TO_C], OF_A);
  await bench.sync(OF_B);
  assertEquals(bench.flows, [TO_B]);
  bench.conntrack.flows = [TO_A, TO_B, TO_C];
  const before = bench.processes;
  for (const state of [OF_A, OF_B, OF_C]) await bench.sync(state);
  await bench.clock.advance(PAUSE - 1);
  assertEquals(bench.processes, before);
  await bench.clock.advance(1);
  assertEquals(bench.flows, [TO_C]);
  assertEquals(bench.processes, before + 3, "one listing, two deletions");
});

Deno.test("a conntrack that hangs does not delay a sync", async () => {
  const bench = new Bench([TO_A, TO_B, TO_C], OF_A);
  const gate = Promise.withResolvers<void>();
  bench.gate = gate.promise;
  await bench.sync(OF_B);
  await bench.sync(OF_C);
  assertEquals(bench.flows.length, 3, "nothing is waited for");
  gate.resolve();
  await settle();
  assertEquals(bench.flows, [TO_C]);
});

Deno.test("a flow to an endpoint that came while conntrack listed is not deleted", async () => {
  const bench = new Bench([TO_C], OF_A);
  const gate = Promise.withResolvers<void>();
  bench.gate = gate.promise;
  await bench.sync(OF_B);
  await bench.sync(stateOf([servicePort([B, C])]));
  gate.resolve();
  await settle();
  await bench.clock.advance(PAUSE);
  assertEquals(bench.flows, [TO_C]);
});

Deno.test("other work runs while a long listing is compared", async () => {
  const flows = Array.from(
    { length: 3_000 },
    (_, i) => flow(`10.0.0.1:${1_000 + i} > ${VIP} > ${B}`),
  );
  const bench = new Bench(flows, OF_A);
  bench.clock.work = 50;
  await bench.sync(OF_B);
  for (let i = 0; i < 50; i++) await bench.clock.advance(0);
  assertEquals(bench.clock.sleeps.filter((each) => each === 0).length > 10, true);
  assertEquals(bench.flows, flows);
});

Deno.test("a missing conntrack is warned of once", async () => {
  const bench = new Bench([TO_A], OF_A);
  bench.conntrack.isMissing = true;
  await bench.sync(OF_B);
  bench.conntrack.isMissing = false;
  await bench.clock.advance(3_600_000);
  await bench.sync(OF_A);
  await bench.sync(OF_B, { full: true });
  assertEquals(bench.processes, 1);
  assertEquals(bench.log.warnings.length, 1);
  assertMatch(bench.log.warnings[0] ?? "", /install conntrack-tools and restart/);
});

Deno.test("a conntrack that hangs or cannot be started is tried again without a sync", async () => {
  const bench = new Bench([TO_A, TO_B], OF_A);
  bench.conntrack.isFailing = true;
  await bench.sync(OF_B);
  assertMatch(bench.log.warnings[0] ?? "", /conntrack did not end; trying again later/);
  bench.conntrack.isFailing = false;
  await bench.clock.advance(RETRY_PAUSE - 1);
  assertEquals(bench.processes, 1);
  await bench.clock.advance(1);
  assertEquals(bench.flows, [TO_B]);
});

Deno.test("a failed deletion is tried again later", async () => {
  const bench = new Bench([TO_A, TO_B], OF_A);
  bench.conntrack.failure = FAILURE;
  await bench.sync(EMPTY);
  await bench.sync(EMPTY);
  assertEquals(bench.processes, 1, "it pauses after a failure");
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals([bench.processes, bench.log.warnings.length], [2, 1]);
  bench.conntrack.failure = undefined;
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.flows, [TO_B]);
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.processes, 4, "nothing is left to try again");
});

Deno.test("an endpoint that went before its Service is made good for, too", async () => {
  const bench = new Bench([TO_A, TO_B], stateOf([servicePort([A, B])]));
  bench.conntrack.failure = FAILURE;
  await bench.sync(OF_B);
  await bench.sync(EMPTY);
  bench.conntrack.failure = undefined;
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.flows, []);
});

Deno.test("what changes during the pause after a failure is made good for as well", async () => {
  const other = servicePort([A], { name: "default/other", clusterIPs: ["10.96.0.11"] });
  const toOther = flow(`10.0.0.1:1000 > 10.96.0.11:53 > ${A}`);
  const bench = new Bench([TO_A, toOther, TO_B], stateOf([servicePort([A]), other]));
  bench.conntrack.failure = FAILURE;
  await bench.sync(stateOf([servicePort([B]), other]));
  bench.conntrack.failure = undefined;
  await bench.sync(OF_B);
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.flows, [TO_B]);
});

Deno.test("what a sync that failed would have made stale is deleted after the next one", async () => {
  const bench = new Bench([TO_A, TO_B, UNRELATED], OF_A);
  await bench.sync(EMPTY, { done: false });
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.processes, 0);
  await bench.sync(EMPTY, { full: true });
  assertEquals(bench.flows, [TO_B, UNRELATED]);
});

Deno.test("a sync that failed holds the next clean-up back until one is done", async () => {
  const bench = new Bench([TO_A, TO_B], OF_A);
  await bench.sync(OF_A, { full: true });
  await bench.sync(EMPTY, { done: false });
  const before = bench.processes;
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals([bench.processes, bench.flows], [before, [TO_A]]);
  await bench.sync(EMPTY);
  assertEquals(bench.flows, []);
});

Deno.test("a virtual IP that moved while conntrack failed has the new endpoints", async () => {
  const own = servicePort([A], { clusterIPs: [] });
  const other = servicePort([B], { name: "default/other" });
  for (const ports of [[own, other], [other, own]]) {
    const bench = new Bench([TO_A, TO_B, flow(`10.0.0.9:1000 > ${VIP}`)], OF_A);
    bench.conntrack.failure = FAILURE;
    await bench.sync(stateOf(ports));
    bench.conntrack.failure = undefined;
    await bench.clock.advance(RETRY_PAUSE);
    assertEquals(bench.flows, [TO_B]);
  }
});

Deno.test("a virtual IP of a Service that did not change goes before a node port that did", async () => {
  const nodePort = (endpoint: string) =>
    servicePort([endpoint], { clusterIPs: [], nodePort: 30053 });
  const vip = servicePort([B], { name: "default/vip", clusterIPs: ["192.0.2.10"], port: 30053 });
  const toVip = flow(`10.0.0.1:1000 > 192.0.2.10:30053 > ${B}`);
  const bench = new Bench([toVip], stateOf([nodePort(A), vip]));
  await bench.sync(stateOf([nodePort(C), vip]));
  assertEquals([bench.processes, bench.flows], [1, [toVip]]);
});

Deno.test("an endpoint that is back after a failure keeps its flows", async () => {
  const bench = new Bench([TO_A], OF_A);
  bench.conntrack.failure = FAILURE;
  await bench.sync(EMPTY);
  bench.conntrack.failure = undefined;
  await bench.sync(OF_A);
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.flows, [TO_A]);
});

Deno.test("many deletions end early to list the entries again", async () => {
  const ports = Array.from(
    { length: 100 },
    (_, index) => servicePort([B], { name: `default/s${index}`, clusterIPs: [`10.96.1.${index}`] }),
  );
  const flows = ports.map((port) => flow(`10.0.0.1:1000 > ${port.clusterIPs[0]}:53 > ${A}`));
  const state = stateOf(ports);
  const bench = new Bench(flows, state);
  bench.conntrack.beforeEach = () => bench.clock.pass(500);
  await bench.sync(state, { full: true });
  assertEquals([bench.flows.length, bench.log.warnings], [79, []]);
  bench.conntrack.flows = bench.flows.slice(-1);
  await bench.clock.advance(PAUSE);
  assertEquals([bench.flows, bench.processes], [[], 24]);
});

Deno.test("while conntrack fails, a limited number of former endpoints is remembered", async () => {
  const count = 1_005;
  const endpoints = Array.from({ length: count }, (_, i) => `10.245.${i >> 8}.${i & 255}:5353`);
  const bench = new Bench(endpoints.map((each) => flow(`10.0.0.1:1000 > ${VIP} > ${each}`)));
  bench.conntrack.failure = FAILURE;
  for (const each of endpoints) await bench.sync(stateOf([servicePort([each])]));
  await bench.sync(EMPTY);
  bench.conntrack.failure = undefined;
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.flows.length, 5);
});

Deno.test("more frontends than are remembered are all compared", async () => {
  const ports = Array.from({ length: 10_001 }, (_, index) =>
    servicePort([B], {
      name: `default/s${index}`,
      clusterIPs: [`10.97.${index >> 8}.${index & 255}`],
    }));
  const flows = ports.slice(-1).map((port) =>
    flow(`10.0.0.1:1000 > ${port.clusterIPs[0]}:53 > ${A}`)
  );
  const bench = new Bench(flows);
  await bench.sync(stateOf(ports));
  assertEquals(bench.flows, []);
  assertEquals(bench.conntrack.processes[0], "conntrack -L -f ipv4 -p udp");
});

Deno.test("no clean-up follows the end of the daemon", async () => {
  const bench = new Bench([TO_A, TO_B], OF_A);
  await bench.sync(OF_A, { full: true });
  await bench.sync(OF_B);
  const before = bench.processes;
  bench.stop.abort();
  await bench.clock.advance(RETRY_PAUSE);
  assertEquals(bench.processes, before);
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

/** Returns the endpoints that the rules of a state may give to a new flow; `undefined`: no rule is about it. */
function endpointsFor({ dst, dport }: Flow, state: DesiredState): readonly string[] | undefined {
  const all = [...state.services.values()].flat().filter(({ protocol }) => protocol === "udp");
  const takes = (port: DesiredServicePort) =>
    port.clusterIPs.includes(dst) && port.port === dport ||
    port.nodePort === dport && dst === "192.0.2.10" && port.family === 4;
  const port = all.find(takes);
  return port && endpointsOf(port);
}

Deno.test("any change leaves every good flow of the rules, no stale one", async () => {
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
    const bench = new Bench(possible, before);
    await bench.sync(after);
    const expected = possible.filter((each) => {
      const now = endpointsFor(each, after);
      if (now !== undefined) return now.includes(sourceOf(each));
      return endpointsFor(each, before) === undefined;
    });
    assertEquals(bench.flows, expected);

    const again = new Bench(every, after);
    await again.sync(after, { full: true });
    const left = every.filter((each) =>
      endpointsFor(each, after)?.includes(sourceOf(each)) ?? true
    );
    assertEquals(again.flows, left);
  }));
});

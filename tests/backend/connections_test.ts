import { assertEquals } from "@std/assert";
import { Connections } from "../../lib/backend/connections.ts";
import type { FrontendCount } from "../../lib/model/connections.ts";
import { desiredPort } from "./desired_port.ts";

const CLUSTER_IP = "IPv4 10.96.0.10 . tcp . 80";

const count = (connections: number): FrontendCount => ({
  frontend: CLUSTER_IP,
  service: "shop/web",
  connections,
});

/** A kernel that counts, and how often it was read. */
function kernel() {
  let elapsed = 0;
  const state = {
    connections: 0,
    counts: (connections: number) => [count(connections)],
    reads: 0,
    fails: false,
    seconds: 0,
    areOurs: false,
  };
  const clock = {
    now: () => Date.parse("2026-01-02T03:04:05Z") + elapsed,
    monotonic: () => elapsed,
    sleep: (_: number, signal?: AbortSignal) =>
      new Promise<void>((done) => {
        if (signal) signal.addEventListener("abort", () => done(), { once: true });
        else done();
      }),
  };
  const connections = new Connections({
    node: "node-1",
    counters: {
      get areOurs() {
        return state.areOurs;
      },
      read: () => {
        state.reads++;
        elapsed += 1000 * state.seconds;
        if (state.fails) return Promise.reject(new Error("busy"));
        return Promise.resolve(state.counts(state.connections));
      },
    },
    services: () => new Map([["shop/web", [desiredPort()]]]),
    clock,
    logger: { debug: () => {} },
  });
  const pass = (seconds: number) => elapsed += 1000 * seconds;
  return { connections, state, pass };
}

Deno.test("the kernel is read at most every second, from the start of the rules on", async () => {
  const { connections, state, pass } = kernel();
  await connections.report();
  assertEquals(state.reads, 0);
  await connections.begin();
  await Promise.all([connections.report(), connections.report()]);
  assertEquals(state.reads, 1);
  pass(0.9);
  await connections.report();
  assertEquals(state.reads, 1);
  pass(0.1);
  await connections.report();
  await connections.report();
  assertEquals(state.reads, 2);
});

Deno.test("rules that this process has written are not read at the start", async () => {
  const { connections, state, pass } = kernel();
  state.areOurs = true;
  await connections.begin();
  assertEquals(state.reads, 0);
  pass(10);
  state.connections = 40;
  const { services, overSeconds } = await connections.report();
  assertEquals([state.reads, overSeconds], [1, 10]);
  assertEquals(services.map((each) => [each.connections, each.perSecond]), [[40, 4]]);
});

Deno.test("a kernel that takes long is read less often, even where it fails", async () => {
  for (const fails of [false, true]) {
    const { connections, state, pass } = kernel();
    Object.assign(state, { seconds: 0.5, fails });
    await connections.begin();
    pass(9);
    assertEquals([(await connections.report()).everySeconds, state.reads], [10, 1]);
    state.seconds = 1000;
    pass(1);
    assertEquals([(await connections.report()).everySeconds, state.reads], [300, 2]);
  }
});

Deno.test("a reading that fails gives what was known before", async () => {
  const { connections, state, pass } = kernel();
  await connections.begin();
  state.connections = 5;
  pass(5);
  await connections.report();
  state.fails = true;
  pass(5);
  const { services, at } = await connections.report();
  assertEquals(services.map(({ connections }) => connections), [5]);
  assertEquals(at, "2026-01-02T03:04:10.000Z");
});

Deno.test("refused connections are listed by reason", async () => {
  const { connections, state, pass } = kernel();
  state.counts = (packets) => [
    count(packets),
    { ...count(3 * packets), reason: "source-range" },
  ];
  await connections.begin();
  state.connections = 20;
  pass(10);
  const { services, rejected, total, totalRejected } = await connections.report();
  assertEquals([services.length, total], [1, { connections: 20, perSecond: 2 }]);
  assertEquals(totalRejected, { connections: 60, perSecond: 6 });
  assertEquals(rejected.map(({ reason, connections }) => [reason, connections]), [
    ["source-range", 60],
  ]);
});

Deno.test("the report has the busiest of very many Services", async () => {
  const numbers = Array.from({ length: 20_000 }, (_, i) => i);
  const port = (i: number) => [desiredPort({ name: `shop/s${i}:http`, nodePort: 30_000 + i })];
  const services = new Map(numbers.map((i) => [`shop/s${i}`, port(i)]));
  let [elapsed, sleeps, readings] = [0, 0, 0];
  const connections = new Connections({
    node: "node-1",
    counters: {
      areOurs: false,
      read: () => {
        const times = readings++;
        return Promise.resolve(numbers.map((i) => ({
          frontend: `IPv4 tcp . ${30_000 + i}`,
          service: `shop/s${i}`,
          connections: times * ((7 * i) % 20_000),
        })));
      },
    },
    services: () => services,
    clock: {
      now: () => 0,
      // Whatever is done takes longer than a turn.
      monotonic: () => elapsed += 20,
      sleep: (ms, signal) => {
        if (ms === 0) sleeps++;
        return ms === 0 || !signal ? Promise.resolve() : new Promise(() => {});
      },
    },
    logger: { debug: () => {} },
  });
  await connections.begin();
  elapsed += 100_000;
  const before = sleeps;
  const { services: busiest, total } = await connections.report(3);
  assertEquals(busiest.map(({ connections }) => connections), [19_999, 19_998, 19_997]);
  assertEquals(total.connections, 19_999 * 10_000);
  assertEquals(sleeps - before > 20_000, true, `${sleeps - before}`);
  const { services: most } = await connections.report();
  assertEquals(most.length, 10_000);
});

Deno.test("where nothing is counted, the report says why", async () => {
  const connections = new Connections({
    node: "node-1",
    counters: "serviceMetrics is off",
    services: () => new Map(),
    clock: { now: () => 0, monotonic: () => 0, sleep: () => Promise.resolve() },
    logger: { debug: () => {} },
  });
  await connections.begin();
  assertEquals(await connections.report(), {
    connectionsVersion: 1,
    node: "node-1",
    off: "serviceMetrics is off",
    at: "",
    overSeconds: 0,
    everySeconds: 1,
    total: { connections: 0, perSecond: 0 },
    services: [],
    totalRejected: { connections: 0, perSecond: 0 },
    rejected: [],
  });
});

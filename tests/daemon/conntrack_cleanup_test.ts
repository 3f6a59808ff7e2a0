import { assertEquals } from "@std/assert";
import { ConntrackCleanup } from "../../lib/daemon/conntrack_cleanup.ts";
import type { DesiredState } from "../../lib/model/kernel/desired.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { FakeConntrack, type Flow, flow } from "../conntrack/fake_conntrack.ts";
import { changeOf, servicePort, stateOf } from "../conntrack/states.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";

const [A, B, C] = ["10.244.0.1:5353", "10.244.0.2:5353", "10.244.0.3:5353"];
const VIP = "10.96.0.10:53";
const [TO_A, TO_B, TO_C] = [A, B, C].map((each, i) =>
  flow(`10.0.0.${i + 1}:1000 > ${VIP} > ${each}`)
);
const flows = (...all: (Flow | undefined)[]) => all.flatMap((each) => each ?? []);

/** A clean-up whose conntrack answers only when it is let. */
class Bench {
  readonly conntrack = new FakeConntrack(flows(TO_A, TO_B, TO_C));
  readonly logger = new MemoryLogger();
  readonly clock = new ManualClock();
  readonly state = { ...stateOf([servicePort([A ?? ""])]) };
  rounds = 0;
  gate: Promise<void> = Promise.resolve();
  readonly cleanup: ConntrackCleanup;

  constructor() {
    const runner: ProcessRunner = {
      run: async (argv, stdin) => {
        await this.gate;
        return await this.conntrack.run(argv, stdin as string | undefined);
      },
    };
    this.cleanup = new ConntrackCleanup({
      state: this.state,
      metrics: { conntrackReconciled: () => {} },
      runtime: { runner, clock: this.clock, addresses: () => [] },
      logger: this.logger,
      requestRound: () => this.rounds++,
      signal: new AbortController().signal,
    });
  }

  /** The kernel takes a state. */
  sync(endpoints: readonly string[]): void {
    const next: DesiredState = stateOf([servicePort(endpoints)]);
    const change = changeOf({ ...this.state }, next);
    Object.assign(this.state, next);
    atOnce(this.cleanup.following({ change, done: true, full: false }));
  }
}

Deno.test("a conntrack that hangs delays no sync, and what came meanwhile is cleaned by the state of then", async () => {
  const bench = new Bench();
  const gate = Promise.withResolvers<void>();
  bench.gate = gate.promise;
  bench.sync([B ?? ""]);
  bench.sync([B ?? "", C ?? ""]);
  bench.sync([C ?? ""]);
  await settle();
  assertEquals(bench.conntrack.flows.length, 3, "nothing is waited for");
  gate.resolve();
  await settle();
  assertEquals(bench.conntrack.flows, flows(TO_C));
});

Deno.test("a flow to an endpoint that came while conntrack listed is not deleted", async () => {
  const bench = new Bench();
  bench.conntrack.flows = flows(TO_C);
  const gate = Promise.withResolvers<void>();
  bench.gate = gate.promise;
  bench.sync([B ?? ""]);
  bench.sync([B ?? "", C ?? ""]);
  gate.resolve();
  await settle();
  assertEquals(bench.conntrack.flows, flows(TO_C));
});

Deno.test("what a killed conntrack left is tried again in a round of its own", async () => {
  const bench = new Bench();
  bench.conntrack.isFailing = true;
  bench.sync([B ?? ""]);
  await settle();
  assertEquals([bench.rounds, bench.logger.at("warn").length], [0, 1]);
  bench.conntrack.isFailing = false;
  await bench.clock.advance(10_000);
  assertEquals(bench.rounds, 1);
  bench.sync([B ?? ""]);
  await settle();
  assertEquals(bench.conntrack.flows, flows(TO_B));
});

Deno.test("however many syncs find conntrack failing, one round tries again", async () => {
  const bench = new Bench();
  bench.conntrack.isFailing = true;
  for (const endpoint of [B, C, B]) {
    bench.sync([endpoint ?? ""]);
    await settle();
    await bench.clock.advance(1_000);
  }
  await bench.clock.advance(10_000);
  assertEquals(bench.rounds, 1);
});

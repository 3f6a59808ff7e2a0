import { assert, assertEquals, assertMatch } from "@std/assert";
import { type ListedSet, Marks } from "../../../lib/backend/nftables/nft.ts";
import { DriftWatch } from "../../../lib/backend/nftables/watch.ts";
import type { Drift } from "../../../lib/model/kernel/dataplane.ts";
import { ProgramMissingError } from "../../../lib/model/ports/ports.ts";
import { ManualClock, MemoryLogger, settle } from "../../support/clock_and_log.ts";

/** The end of a transaction, which is printed with the next generation. */
const END = "# new generation";

const MISSING: Drift = { missing: "element of services4", added: "", by: "" };

/** A watch with a monitor that prints what the test says. */
class Fixture implements AsyncDisposable {
  readonly clock = new ManualClock();
  readonly logger = new MemoryLogger();
  readonly marks = new Marks(4096);
  readonly drift: Drift[] = [];
  /** The result of looks. */
  found: Drift | undefined;
  /** Looks fail. */
  isUnreadable = false;
  /** The sets that the table has. */
  sets: readonly ListedSet[] = [
    { kind: "map", name: "services4" },
    { kind: "set", name: "hairpins4" },
  ];
  /** The elements that repairs were given. */
  readonly touched: string[] = [];
  /** The looks that were taken. */
  readonly looks: string[] = [];
  /** True if the table is too large to be listed. */
  isLarge = false;
  /** The reasons for which a full sync was asked for. */
  readonly missed: string[] = [];
  /** The command lines of the monitors. */
  readonly started: string[] = [];
  /** True if the program is missing. */
  isMissing = false;
  readonly #stop = new AbortController();
  #generation = 1_000;
  /** The running monitors, the first one first. */
  readonly #monitors = new Set<ReadableStreamDefaultController<string>>();
  readonly #watching: Promise<void>;

  constructor() {
    const look = (what: string) => {
      this.looks.push(what);
      return this.isUnreadable
        ? Promise.reject(new Error("nft printed more than 256 MiB"))
        : Promise.resolve(this.found);
    };
    const watch = new DriftWatch({
      streamer: { lines: (argv, signal) => this.#lines(argv, signal) },
      nft: { listSetNames: () => Promise.resolve(this.sets) },
      marks: this.marks,
      look: { structure: () => look("structure"), contents: () => look("contents") },
      touched: { add: ({ elementLines }) => this.touched.push(...elementLines ?? ["too many"]) },
      isLarge: () => this.isLarge,
      clock: this.clock,
      logger: this.logger,
      checkPeriod: 30_000,
      onDrift: (drift) => this.drift.push(drift),
      onMissed: (reason) => this.missed.push(reason),
    });
    this.#watching = watch.run(this.#stop.signal);
  }

  /** Has the monitor print lines, and lets time pass until they are reported. */
  async print(...lines: readonly string[]): Promise<void> {
    await settle();
    await this.#printTo([...this.#monitors], lines);
  }

  /** Has one of the monitors print lines, the first being 0. */
  async printBy(which: number, ...lines: readonly string[]): Promise<void> {
    await this.#printTo([...this.#monitors].slice(which, which + 1), lines);
  }

  async #printTo(
    monitors: readonly ReadableStreamDefaultController<string>[],
    lines: readonly string[],
  ): Promise<void> {
    for (const each of lines) {
      const line = each === END ? generation(++this.#generation) : each;
      for (const monitor of monitors) monitor.enqueue(line);
    }
    await settle();
    await this.clock.advance(50);
  }

  /** The monitors that run. */
  get running(): number {
    return this.#monitors.size;
  }

  /** Ends one monitor: 0 is the first. The newest, -1, ends like this if a set that it is told of has gone. */
  async endOne(which: number): Promise<void> {
    const monitor = [...this.#monitors].at(which);
    if (monitor) this.#monitors.delete(monitor);
    monitor?.close();
    await settle();
  }

  /** The line that tells of a mark of ours. */
  mark(): string {
    const [mark] = /0x[0-9a-f]+/.exec(this.marks.next()) ?? [];
    return `add element inet signpost transactions { ${mark} timeout 8ms expires 8ms }`;
  }

  /** Ends the monitor. */
  async end(): Promise<void> {
    await settle();
    this.#close();
    await settle();
  }

  #close(): void {
    for (const monitor of this.#monitors) monitor.close();
    this.#monitors.clear();
  }

  #lines(argv: readonly string[], signal: AbortSignal): AsyncIterable<string> {
    this.started.push(argv.join(" "));
    if (this.isMissing) throw new ProgramMissingError("nft");
    let controller: ReadableStreamDefaultController<string>;
    return new ReadableStream<string>({
      start: (started) => {
        controller = started;
        this.#monitors.add(controller);
        signal.addEventListener("abort", () => {
          if (this.#monitors.delete(controller)) controller.close();
        }, { once: true });
      },
      cancel: () => void this.#monitors.delete(controller),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }
}

Deno.test("the monitor reads the sets of our table without their elements", async () => {
  await using fixture = new Fixture();
  await settle();
  assertEquals(fixture.started, [
    "nft --check --echo flush map inet signpost services4 ; flush set inet signpost hairpins4 ; " +
    "monitor ; list table inet signpost",
  ]);
});

Deno.test("repairs get the touched elements in the order of the transactions", async () => {
  await using fixture = new Fixture();
  const line = (key: number) => `delete element inet signpost services4 { ${key} }`;
  await fixture.print(...[line(2), generation(8)], ...[line(1), generation(7)]);
  await fixture.print(
    "delete element inet signpost services4 { 9 }",
    fixture.mark(),
    generation(9),
  );
  assertEquals(fixture.touched, [line(1), line(2)]);
  await fixture.print(...[line(3), generation(11)], ...[line(3), generation(11)]);
  assertEquals(fixture.touched, [line(1), line(2), line(3)]);
});

Deno.test("transactions that come at once are one report", async () => {
  await using fixture = new Fixture();
  const line = "delete element inet signpost services4 { 1 }";
  await fixture.print(line, END, line, END, "delete chain inet signpost services", END);
  assertEquals(fixture.drift, [
    { missing: "element of services4, chain of services", added: "", by: "nft (pid 4711)" },
  ]);
});

Deno.test("what carries our mark is not reported, whatever it deletes", async () => {
  await using fixture = new Fixture();
  await fixture.print("delete element inet signpost services4 { 1 }", fixture.mark(), END);
  await fixture.print("delete table inet signpost", fixture.mark(), END);
  assertEquals(fixture.drift, []);
  await fixture.print(
    "delete element inet signpost services4 { 1 }",
    fixture.mark().replace("0x", "0xf"),
    END,
  );
  assertEquals(fixture.drift.length, 1);
});

Deno.test("what a full script of ours has put right already is not reported", async () => {
  await using fixture = new Fixture();
  await fixture.print(
    ...["delete element inet signpost services4 { 1 }", END],
    ...["delete table inet signpost", fixture.mark(), END],
  );
  assertEquals(fixture.drift, []);
});

Deno.test("a monitor that does not report our transaction within 10 s is restarted", async () => {
  await using fixture = new Fixture();
  fixture.found = MISSING;
  await fixture.clock.advance(10_000);
  await write(fixture, 7, 8);
  fixture.drift.length = fixture.looks.length = 0;
  for (let times = 0; times < 3; times++) await fixture.clock.advance(10_000);
  assertEquals([fixture.started.length, fixture.logger.at("warn")], [1, []]);
  fixture.drift.length = fixture.looks.length = 0;
  fixture.mark();
  fixture.marks.taken();
  for (const pause of [10_000, 10_000]) await fixture.clock.advance(pause);
  assertMatch(fixture.logger.at("warn").join(), /nft monitor does not report what signpost wrote/);
  for (const pause of [200, 300, 100]) await fixture.clock.advance(pause);
  assertEquals([fixture.started.length, fixture.running], [2, 1]);
  assertEquals([fixture.looks.at(-1), fixture.drift.at(-1)], ["contents", MISSING]);
});

Deno.test("transactions that were written while no monitor ran need no report", async () => {
  await using fixture = new Fixture();
  await fixture.clock.advance(10_000);
  await fixture.end();
  fixture.mark();
  fixture.marks.taken();
  for (const pause of [200, 10_000, 10_000, 10_000]) await fixture.clock.advance(pause);
  const marks = [1, 2, 3].map(() => {
    const mark = fixture.mark();
    fixture.marks.taken();
    return mark;
  });
  for (const [i, mark] of marks.entries()) {
    await fixture.clock.advance(9_000);
    await fixture.print(mark, generation(20 + i));
  }
  await fixture.clock.advance(20_000);
  assertEquals([fixture.started.length, fixture.logger.at("warn")], [2, []]);
});

Deno.test("a monitor that keeps ending is started again later each time", async () => {
  await using fixture = new Fixture();
  for (const [i, pause] of [200, 400, 800, 1_600, 3_200, 6_400].entries()) {
    assertEquals(fixture.started.length, i + (i === 0 ? 0 : 1));
    await fixture.end();
    await fixture.clock.advance(pause - 1);
    assertEquals(fixture.started.length, i + 1, `before ${pause} ms`);
    await fixture.clock.advance(1);
  }
});

Deno.test("where our own script adds a set, a monitor that knows it takes over at once", async () => {
  await using fixture = new Fixture();
  await fixture.print("add set inet signpost affinity4-1 { type ipv4_addr; }", fixture.mark(), END);
  await fixture.print("add map inet signpost services4 { type mark; }", fixture.mark(), END);
  assertEquals(fixture.started.length, 1);
  await fixture.print("add set inet signpost source-ranges-tcp4 { }", fixture.mark(), END);
  assertEquals([fixture.started.length, fixture.drift], [2, []]);
  await fixture.clock.advance(300);
  await fixture.print("delete element inet signpost services4 { 1 }", END);
  assertEquals([fixture.drift.length, fixture.started.length], [1, 2]);
  assertEquals(fixture.logger.at("info"), []);
});

/** The output of nft if the kernel could not keep all events for it. */
const LOST = "# ERROR: We lost some netlink events!";

/** A script of our own that adds a set. */
const NEW_SET = "add set inet signpost source-ranges-tcp4 { }";

/** The end of a transaction with this number. */
const generation = (number: number) => `# new generation ${number} by process 4711 (nft)`;

Deno.test("a monitor goes on until it has told what its successor heard first", async () => {
  await using fixture = new Fixture();
  await fixture.print(NEW_SET, fixture.mark(), generation(7));
  assertEquals(fixture.running, 2);
  await fixture.printBy(1, generation(9));
  assertEquals(fixture.running, 2);
  await fixture.printBy(0, "delete element inet signpost services4 { 1 }", generation(8));
  assertEquals([fixture.running, fixture.drift.length], [2, 1]);
  await fixture.printBy(0, generation(9));
  assertEquals([fixture.running, fixture.started.length], [1, 2]);
  await fixture.print("delete element inet signpost services4 { 1 }", generation(10));
  assertEquals(fixture.drift.length, 2);
});

Deno.test("a successor that is ahead takes over at the next transaction", async () => {
  await using fixture = new Fixture();
  await fixture.print(NEW_SET, fixture.mark(), generation(2 ** 32 - 1));
  await fixture.printBy(1, generation(1));
  assertEquals(fixture.running, 2);
  await fixture.printBy(0, generation(2));
  assertEquals(fixture.running, 1);
});

Deno.test("a successor that is refused because a set has gone is tried again", async () => {
  await using fixture = new Fixture();
  await fixture.print(NEW_SET, fixture.mark(), generation(7));
  for (const [started, pause] of [[2, 50], [3, 100], [4, 200]] as const) {
    assertEquals(fixture.started.length, started);
    await fixture.endOne(-1);
    assertEquals(fixture.running, 1);
    await fixture.clock.advance(pause);
  }
  assertEquals([fixture.started.length, fixture.running], [5, 2]);
  await fixture.print("delete element inet signpost services4 { 1 }", generation(8));
  assertEquals([fixture.drift.length, fixture.running], [1, 1]);
  assertEquals(fixture.logger.at("info"), []);
});

Deno.test("the table is compared if the monitor ends before its successor reads", async () => {
  await using fixture = new Fixture();
  await fixture.clock.advance(300);
  fixture.looks.length = 0;
  await fixture.print(NEW_SET, fixture.mark(), generation(7));
  await fixture.endOne(0);
  assertEquals(fixture.running, 0);
  await fixture.clock.advance(200);
  assertEquals(fixture.running, 1);
  await fixture.clock.advance(300);
  assertEquals(fixture.looks, ["contents"]);
});

Deno.test("of sets that come while a monitor starts, another one knows", async () => {
  await using fixture = new Fixture();
  await settle();
  fixture.sets = [...fixture.sets, { kind: "map", name: "endpoints-tcp4" }];
  await fixture.print(generation(7));
  assertEquals([fixture.started.length, fixture.running], [2, 2]);
  assertMatch(fixture.started[1] ?? "", /flush map inet signpost endpoints-tcp4/);
  await fixture.print(generation(8));
  assertEquals([fixture.started.length, fixture.running], [2, 1]);
});

Deno.test("a program that cannot be run does not end the watch", async () => {
  await using fixture = new Fixture();
  await settle();
  fixture.isMissing = true;
  await fixture.end();
  for (let times = 0; times < 5; times++) await fixture.clock.advance(30_000);
  assert(fixture.started.length > 3, `${fixture.started.length}`);
});

/** Has the monitor lose events, and waits for the look that follows. */
async function lose(fixture: Fixture): Promise<void> {
  await fixture.print(LOST);
  for (const pause of [10_000, 300, 0]) await fixture.clock.advance(pause);
}

/** Transactions of ours, the generations of which are those. */
async function write(fixture: Fixture, ...generations: readonly number[]): Promise<void> {
  for (const each of generations) {
    const mark = fixture.mark();
    fixture.marks.taken();
    await fixture.print(mark, generation(each));
  }
}

Deno.test("where a monitor ended or lost events, a full sync reads a large table back", async () => {
  await using fixture = new Fixture();
  fixture.isLarge = true;
  await fixture.clock.advance(300);
  assertEquals(fixture.missed, [], "at the start");
  await fixture.end();
  for (const pause of [200, 300, 0]) await fixture.clock.advance(pause);
  assertEquals(fixture.looks, ["structure"]);
  assertEquals(fixture.missed, ["nft monitor ended or lost events"]);
  await fixture.clock.advance(60_000);
  await lose(fixture);
  assertEquals(fixture.missed.length, 2);
  assertEquals([fixture.drift, fixture.logger.at("warn")], [[], []]);
});

Deno.test("full syncs for missed events wait longer each time", async () => {
  await using fixture = new Fixture();
  fixture.isLarge = true;
  await fixture.clock.advance(300);
  await lose(fixture);
  for (const [i, pause] of [60_000, 120_000, 240_000].entries()) {
    for (let times = 0; times < 2; times++) await lose(fixture);
    await fixture.clock.advance(pause - 30_000);
    assertEquals(fixture.missed.length, i + 1, `before ${pause} ms`);
    await fixture.clock.advance(10_000);
    assertEquals(fixture.missed.length, i + 2, `after ${pause} ms`);
  }
  await fixture.clock.advance(3_600_000);
  await fixture.clock.advance(600_000);
  assertEquals(fixture.missed.length, 4);
  await lose(fixture);
  await lose(fixture);
  await fixture.clock.advance(60_000);
  assertEquals(fixture.missed.length, 6, "after an hour without, the first pause again");
});

Deno.test("a transaction that two monitors report is reported once", async () => {
  await using fixture = new Fixture();
  await fixture.print(NEW_SET, fixture.mark(), generation(7));
  const lines = ["delete element inet signpost services4 { 1 }", generation(8)];
  await fixture.printBy(1, ...lines);
  await fixture.clock.advance(1_000);
  await fixture.printBy(0, ...lines);
  assertEquals([fixture.drift.length, fixture.touched.length], [1, 1]);
});

Deno.test("a look at the structure now and then finds what no monitor told", async () => {
  await using fixture = new Fixture();
  await fixture.clock.advance(300);
  fixture.looks.length = 0;
  fixture.found = MISSING;
  await fixture.clock.advance(29_700);
  await fixture.clock.advance(100);
  assertEquals([fixture.looks, fixture.drift], [["structure"], [MISSING]]);
});

Deno.test("a difference that a look and the monitor find is one report", async () => {
  await using fixture = new Fixture();
  await fixture.clock.advance(300);
  fixture.found = { missing: "the whole table", added: "", by: "" };
  await fixture.clock.advance(29_700);
  await fixture.print("delete table inet signpost", END);
  // It is repaired.
  fixture.found = undefined;
  await fixture.clock.advance(100);
  assertEquals(fixture.drift, [{ missing: "the whole table", added: "", by: "nft (pid 4711)" }]);
});

Deno.test("a table that cannot be read gives one warning", async () => {
  await using watch = new Fixture();
  const { clock, logger } = watch;
  const periods = async (count: number) => {
    for (let i = 0; i < count; i++) await clock.advance(30_000);
    return logger.at("warn").length;
  };
  watch.isUnreadable = true;
  assertEquals(await periods(3), 1);
  assertMatch(logger.at("warn")[0] ?? "", /cannot read the table.*more than 256 MiB/);
  watch.isUnreadable = false;
  assertEquals(await periods(1), 1);
  watch.isUnreadable = true;
  assertEquals(await periods(2), 2);
});

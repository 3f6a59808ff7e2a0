import { assertEquals, assertMatch } from "@std/assert";
import { DriftWatch } from "../../../../lib/backend/nftables/drift/drift.ts";
import { Nft } from "../../../../lib/backend/nftables/kernel/nft.ts";
import { OwnDeletions, WHOLE_TABLE } from "../../../../lib/backend/nftables/drift/own_deletions.ts";
import { ProgramMissingError } from "../../../../lib/model/ports.ts";
import { ManualClock, MemoryLogger, settle } from "../../../source/api/fakes.ts";

/** A watch with a monitor that prints what the test says. */
class Fixture implements AsyncDisposable {
  readonly clock = new ManualClock();
  readonly logger = new MemoryLogger();
  readonly own = new OwnDeletions();
  readonly drift: string[] = [];
  /** What `nft list table` prints. */
  listing = "";
  /** What should be there; a chain has its rules. */
  expected: readonly (readonly [name: string, rules: number])[] = [];
  /** What is in the table, and what was ever added. */
  load = { elements: 0, added: 0, steps: 0 };
  /** Whether a script is under way. */
  isBusy = false;
  /** What a look at some elements finds missing. */
  missingElements: string | undefined;
  /** How often the table was listed. */
  looks = 0;
  /** How often the monitor was started. */
  started = 0;
  /** Whether the program is missing. */
  missing = false;
  /** Called while the table is listed. */
  during: () => void = () => {};
  readonly #stop = new AbortController();
  #monitor: ReadableStreamDefaultController<string> | undefined;
  readonly #watching: Promise<void>;

  constructor() {
    const watch = new DriftWatch({
      streamer: { lines: (_argv, signal) => this.#lines(signal) },
      nft: new Nft({ run: () => this.#list() }),
      own: this.own,
      expectedRules: () => this.expected,
      lookAtElements: () => Promise.resolve(this.missingElements),
      load: () => ({ ...this.load, isBusy: this.isBusy }),
      clock: this.clock,
      logger: this.logger,
      checkPeriod: 30_000,
      onDrift: (what) => this.drift.push(what),
    });
    this.#watching = watch.run(this.#stop.signal);
  }

  /** Has the monitor print lines, and lets time pass until they are reported. */
  async print(...lines: readonly string[]): Promise<void> {
    for (const line of lines) this.#monitor?.enqueue(line);
    await settle();
    await this.clock.advance(50);
  }

  /** Lets so many milliseconds pass, little by little. */
  async pass(milliseconds: number): Promise<void> {
    for (let i = 0; i < milliseconds; i += 250) await this.clock.advance(250);
  }

  /** Ends the monitor. */
  async end(): Promise<void> {
    this.#close();
    await settle();
  }

  #close(): void {
    this.#monitor?.close();
    this.#monitor = undefined;
  }

  #list() {
    this.looks++;
    this.during();
    return Promise.resolve({ code: 0, stdout: this.listing, stderr: "" });
  }

  #lines(signal: AbortSignal): AsyncIterable<string> {
    this.started++;
    if (this.missing) throw new ProgramMissingError("nft");
    return new ReadableStream<string>({
      start: (controller) => {
        this.#monitor = controller;
        signal.addEventListener("abort", () => this.#close(), { once: true });
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }
}

const LISTING =
  "table inet signpost {\n\tset a {\n\t}\n\n\tmap b {\n\t\ttypeof ip daddr : verdict\n\t}\n\n" +
  "\tchain c {\n\t\ttype nat hook output priority -100; policy accept;\n\t\taccept\n\t\tdrop\n\t}\n}\n";

const EXPECTED = [["a", 0], ["b", 0], ["c", 2]] as const;

Deno.test("the deletions of one transaction are one report", async () => {
  await using fixture = new Fixture();
  await fixture.print(
    "delete element inet signpost services4 { 10.96.0.1 . tcp . 80 : goto x }",
    "delete element inet signpost services4 { 10.96.0.2 . tcp . 80 : goto x }",
    "delete chain inet signpost services",
  );
  assertEquals(fixture.drift, ["element of services4, chain of services"]);
});

Deno.test("a report that the whole table is gone does not list its parts", async () => {
  await using fixture = new Fixture();
  await fixture.print("delete chain inet signpost services", "delete table inet signpost");
  assertEquals(fixture.drift, ["the whole table"]);
});

Deno.test("a long report names a few parts and counts the rest", async () => {
  await using fixture = new Fixture();
  await fixture.print(..."abcdefg".split("").map((name) => `delete chain inet signpost ${name}`));
  assertEquals(fixture.drift.length, 1);
  assertMatch(fixture.drift.join(), /^chain of a, .*chain of e and 2 more$/);
});

Deno.test("what we announced is not reported", async () => {
  await using fixture = new Fixture();
  fixture.own.announce(new Map([["chain services", 1]]));
  await fixture.print("delete chain inet signpost services");
  assertEquals(fixture.drift, []);
  fixture.own.announce(WHOLE_TABLE);
  await fixture.print("delete chain inet signpost services", "delete table inet signpost");
  assertEquals(fixture.drift, []);
});

Deno.test("events that the monitor lost may have been anything", async () => {
  await using fixture = new Fixture();
  await fixture.print("# ERROR: We lost some netlink events!");
  assertEquals(fixture.drift, ["unknown: nft monitor lost events"]);
});

Deno.test("a monitor that ends is started again, later each time, and what it missed is written anew", async () => {
  await using fixture = new Fixture();
  for (const [i, pause] of [200, 400, 800, 1_600, 3_200, 6_400].entries()) {
    assertEquals(fixture.started, i + 1);
    await fixture.end();
    await fixture.clock.advance(pause - 1);
    assertEquals(fixture.started, i + 1, `before ${pause} ms`);
    await fixture.clock.advance(1);
  }
  await fixture.clock.advance(300);
  assertEquals(new Set(fixture.drift), new Set(["unknown: nft monitor was not running"]));
  assertEquals(fixture.drift.length, 6);
});

Deno.test("what was announced and never seen does not count for ever", async () => {
  await using fixture = new Fixture();
  fixture.own.announce(WHOLE_TABLE);
  await fixture.clock.advance(30_000);
  await fixture.clock.advance(30_000);
  await fixture.print("delete table inet signpost");
  assertEquals(fixture.drift, ["the whole table"]);
});

Deno.test("a program that cannot be run does not end the watch", async () => {
  await using fixture = new Fixture();
  fixture.missing = true;
  await fixture.end();
  for (let times = 0; times < 5; times++) await fixture.clock.advance(30_000);
  assertEquals(fixture.started > 3, true);
});

Deno.test("a look at the table now and then finds what no monitor told", async () => {
  await using fixture = new Fixture();
  fixture.listing = LISTING;
  fixture.expected = EXPECTED;
  await fixture.clock.advance(30_000);
  assertEquals(fixture.drift, []);
  fixture.expected = [...EXPECTED, ["d", 0]];
  await fixture.clock.advance(30_000);
  assertEquals(fixture.drift.length, 1);
  assertMatch(fixture.drift.join(), /\bd\b/);
});

Deno.test("a chain that has lost rules is found, one that has more than ours is let be", async () => {
  await using fixture = new Fixture();
  fixture.listing = LISTING;
  fixture.expected = [["a", 0], ["b", 0], ["c", 1]];
  await fixture.clock.advance(30_000);
  assertEquals(fixture.drift, []);
  fixture.expected = [["a", 0], ["b", 0], ["c", 3]];
  await fixture.clock.advance(30_000);
  assertEquals(fixture.drift.splice(0), ["rule of c"]);
  for (const [before, after] of [[2, 3], [3, 2]] as const) {
    fixture.expected = [["c", before]];
    fixture.during = () => {
      fixture.expected = [["c", after]];
    };
    await fixture.clock.advance(30_000);
  }
  assertEquals(fixture.drift, []);
});

Deno.test("what a sync removed during the look is not missing", async () => {
  await using fixture = new Fixture();
  fixture.listing = LISTING;
  fixture.expected = [...EXPECTED, ["d", 0]];
  fixture.during = () => {
    fixture.expected = EXPECTED;
  };
  await fixture.clock.advance(30_000);
  assertEquals(fixture.drift, []);
});

Deno.test("what a script that is under way has removed is not missing, what else is gone is", async () => {
  for (const expected of [EXPECTED, [...EXPECTED, ["e", 0] as const]]) {
    await using fixture = new Fixture();
    fixture.listing = LISTING;
    fixture.isBusy = true;
    fixture.expected = [...expected, ["d", 0]];
    await fixture.clock.advance(30_000);
    assertEquals(fixture.drift, []);
    fixture.expected = expected;
    fixture.isBusy = false;
    fixture.load = { elements: 0, added: 0, steps: 1 };
    await fixture.pass(250);
    assertEquals(fixture.drift, expected === EXPECTED ? [] : ["e"]);
  }
});

Deno.test("a monitor that has seen very many additions is replaced, and nothing is reported", async () => {
  await using fixture = new Fixture();
  fixture.load = { elements: 20_000, added: 20_000, steps: 0 };
  await fixture.pass(10_000);
  assertEquals([fixture.started, fixture.looks], [1, 0]);
  fixture.load = { elements: 20_000, added: 20_001, steps: 0 };
  await fixture.pass(10_000);
  assertEquals([fixture.started, fixture.looks], [2, 1]);
  fixture.load = { elements: 20_000, added: 40_001, steps: 0 };
  await fixture.pass(5_000);
  assertEquals([fixture.started, fixture.looks], [2, 1]);
  assertEquals(fixture.drift, []);
  assertEquals(fixture.logger.at("warn"), []);
});

Deno.test("no monitor follows a very large table, but it is looked at within each second", async () => {
  await using fixture = new Fixture();
  fixture.listing = LISTING;
  fixture.expected = EXPECTED;
  fixture.load = { elements: 20_001, added: 20_001, steps: 0 };
  await fixture.pass(1_000);
  const { looks } = fixture;
  await fixture.pass(10_000);
  assertEquals(fixture.looks - looks >= 10, true, `${fixture.looks - looks}`);
  assertEquals([fixture.started, fixture.drift.length], [1, 0]);
  fixture.load = { elements: 20_001, added: 20_001, steps: 1 };
  fixture.missingElements = "elements of shop/a to shop/z";
  await fixture.pass(12_000);
  assertEquals(fixture.drift.splice(0), ["elements of shop/a to shop/z"]);
  fixture.missingElements = undefined;
  fixture.listing = "";
  await fixture.pass(1_000);
  assertMatch(fixture.drift.join(), /^a, b, c/);
  fixture.load = { elements: 15_001, added: 40_002, steps: 0 };
  await fixture.pass(2_000);
  assertEquals(fixture.started, 1);
  fixture.load = { elements: 15_000, added: 40_003, steps: 0 };
  await fixture.pass(2_000);
  assertEquals(fixture.started, 2);
});

Deno.test("where the kernel has just taken a change of a large table, it need not be looked at", async () => {
  await using fixture = new Fixture();
  fixture.load = { elements: 20_001, added: 20_001, steps: 0 };
  await fixture.pass(1_000);
  for (let steps = 1; steps < 20; steps++) {
    fixture.load = { elements: 20_001, added: 20_001, steps };
    await fixture.pass(900);
  }
  assertEquals(fixture.looks <= 2, true, `${fixture.looks}`);
  await fixture.pass(20_000);
  assertEquals(fixture.looks > 15, true, `${fixture.looks}`);
});

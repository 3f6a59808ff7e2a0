/** The drift watch beside the real kernel: our own transactions are silent, others are not. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { DriftWatch, followMonitor, monitorCommand } from "../../../lib/backend/nftables/watch.ts";
import { Look, repairScript } from "../../../lib/backend/nftables/repair.ts";
import { Touched } from "../../../lib/backend/nftables/transactions.ts";
import { Marks, Nft } from "../../../lib/backend/nftables/nft.ts";
import type { Drift } from "../../../lib/model/kernel/dataplane.ts";
import { SystemClock } from "../../../lib/system/clock.ts";
import { cluster } from "../../support/arbitrary.ts";
import { execute } from "../../support/command.ts";
import { eventually } from "../../support/eventually.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { Kernel } from "./kernel.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { service, slice } from "../../support/cluster.ts";

/** A dataplane with some services in the kernel, and a watch that is known to follow. */
class Fixture implements AsyncDisposable {
  readonly kernel: Kernel;
  readonly pipeline = new Pipeline({
    configuration: { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] },
  });
  readonly dataplane: NftablesDataplane;
  readonly drift: string[] = [];
  readonly logger = new MemoryLogger();
  readonly look: Look;
  readonly #marks = new Marks(4096);
  readonly #stop = new AbortController();
  #watching: Promise<void> = Promise.resolve();

  constructor(kernel: Kernel) {
    this.kernel = kernel;
    this.dataplane = new NftablesDataplane(new Nft(kernel.runner, this.#marks));
    this.look = new Look({
      nft: kernel.nft,
      dataplane: this.dataplane,
      desired: this.pipeline.desired,
      clock: new SystemClock(),
    });
  }

  static async create(options: { readonly checkPeriod: number }): Promise<Fixture> {
    const fixture = new Fixture(await Kernel.create());
    try {
      await fixture.sync([], { full: true });
      fixture.watch(options);
      await fixture.following();
      await eventually("the first look", () => fixture.logger.at("debug").some(isLook));
    } catch (error) {
      await fixture[Symbol.asyncDispose]();
      throw error;
    }
    return fixture;
  }

  /**
   * Waits until a monitor tells of changes, and has told of all that there were.
   *
   * @returns what was reported so far
   */
  async following(): Promise<readonly string[]> {
    await eventually("the first report", async () => {
      await this.kernel.script(MARKER);
      return this.drift.length > 0;
    });
    await this.kernel.script(MARKER.replaceAll("marker", "last"));
    await eventually("the last report", () => this.drift.at(-1)?.includes("chain of last"));
    return this.drift.splice(0);
  }

  watch({ checkPeriod }: { readonly checkPeriod: number }): void {
    const watch = new DriftWatch({
      streamer: this.kernel.streamer,
      nft: this.kernel.nft,
      marks: this.#marks,
      look: this.look,
      touched: new Touched(),
      isLarge: () => this.dataplane.isLarge,
      onMissed: () => {},
      clock: new SystemClock(),
      logger: this.logger,
      checkPeriod,
      onDrift: ({ missing, added }) => this.drift.push(missing || `added ${added}`),
    });
    this.#watching = watch.run(this.#stop.signal);
  }

  async sync(
    objects: Parameters<Pipeline["load"]>[0],
    options: { readonly full: boolean },
  ): Promise<void> {
    const { change } = this.pipeline.load(objects);
    const partial = options.full
      ? undefined
      : atOnce(this.dataplane.changing(change, this.pipeline.desired));
    await this.dataplane.apply(partial ?? this.dataplane.full(this.pipeline.desired));
  }

  /**
   * All that was reported, once a monitor has told of a script that comes now. It comes more than
   * once: a monitor may have ended, or be about to give way to one that knows more sets.
   */
  async reports(round: number): Promise<readonly string[]> {
    const marker = `end-${round}`;
    await eventually("a report", async () => {
      await this.kernel.script(MARKER.replaceAll("marker", marker));
      return this.drift.some((report) => report.includes(marker));
    });
    return this.drift.splice(0);
  }

  /** Runs a script of another program, and returns the report of it. */
  async after(script: string): Promise<string> {
    await this.kernel.script(script);
    return await eventually("a report", () => this.drift.splice(0).join("; "));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#watching;
    await this.kernel[Symbol.asyncDispose]();
  }
}

/** Returns true if a line of the log tells that a look found nothing. */
function isLook(line: string): boolean {
  return line.includes("the table has the desired rules");
}

const NEVER = 3_600_000;

/** Another program's doing that leaves nothing behind. */
const MARKER = "add chain inet signpost marker\ndelete chain inet signpost marker";

/** Reports of what the tests themselves do. */
const OURS = /^chain of (?:marker|last|end-\d+)(?:, chain of (?:marker|last|end-\d+))*$/;

const SERVICE = service();

/** Services that take turns, with two endpoints each. */
function turns(count: number): Parameters<Pipeline["load"]>[0] {
  return Array.from({ length: count }, (_, i) => `turns-${i}`).flatMap((name, i) => [
    service({
      name,
      metadata: { annotations: { "signpost.dev/scheduler": "round-robin" } },
      clusterIP: `10.96.1.${i}`,
    }),
    slice({ service: name, endpoints: ["10.244.0.2", "10.244.0.3"] }),
  ]);
}

const ONE_RANGE = ["192.0.2.0/24"];
const TWO_RANGES = ["192.0.2.0/24", "198.51.100.0/24"];

/** A Service that a balancer leads to, from these ranges alone. */
function balanced(ranges: readonly string[]): Parameters<Pipeline["load"]>[0][number] {
  const fields = { type: "LoadBalancer", loadBalancerSourceRanges: ranges };
  return service({ ...fields, ingress: ["203.0.113.1"] });
}

/** The processes of a namespace that are `nft monitor`. */
async function monitors(kernel: Kernel): Promise<number[]> {
  const { stdout } = await execute(["ip", "netns", "pids", kernel.prefix.at(-1) ?? ""]);
  return stdout.split("\n").filter((pid) => pid !== "").map(Number).filter((pid) => {
    try {
      return Deno.readTextFileSync(`/proc/${pid}/cmdline`).includes("\0monitor\0");
    } catch {
      return false; // It has ended.
    }
  });
}

/** Clusters without source ranges, the change of which crashes the monitor of nft 1.0.6. */
const withoutRanges = cluster.map((objects) =>
  objects.map((object) => ({
    ...object,
    ...(object.kind === "Service" && {
      spec: { ...object["spec"] as object, loadBalancerSourceRanges: [] },
    }),
  }))
);

Deno.test("our own scripts, full and partial, do not look like drift", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  let round = 0;
  const steps = fc.array(fc.tuple(withoutRanges, fc.boolean()), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(steps, async (steps) => {
      for (const [objects, full] of steps) await fixture.sync(objects, { full });
      assertEquals(new Map(fixture.dataplane.ruleCounts), await fixture.kernel.ruleCounts());
      assertEquals((await fixture.reports(round++)).filter((report) => !OURS.test(report)), []);
    }),
    { numRuns: 15, endOnFailure: true },
  );
});

Deno.test("our own slots of new round-robin maps are not reported", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  const isTheirs = (report: string) => !OURS.test(report);
  for (const [round, count] of [1, 100, 0, 2].entries()) {
    await fixture.sync(turns(count), { full: false });
    assertEquals((await fixture.reports(round)).filter(isTheirs), []);
    const listing = await fixture.kernel.nft.listTable();
    const names = [...listing.matchAll(/map (endpoints-tcp4-turns-\d+) \{/g)].map(([, name]) =>
      name
    );
    assert(names.length >= Math.min(count, 32) && names.length <= count, names.join());
    for (const name of names.slice(-2)) {
      await eventually(`a report of ${name}`, async () => {
        await fixture.kernel.script(
          `add element inet signpost ${name} { 192.0.2.1 . 1 . 1 : 192.0.2.1 . 1 }\n` +
            `delete element inet signpost ${name} { 192.0.2.1 . 1 . 1 }\n`,
        );
        return fixture.drift.includes(`element of ${name}`);
      });
    }
    await fixture.reports(100 + round);
  }
});

Deno.test("tables of other programs are none of ours", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  await fixture.kernel.script(
    "table inet signpost-other { set x { type ipv4_addr; elements = { 10.0.0.1 }; }; }\n" +
      "delete table inet signpost-other\n",
  );
  await fixture.kernel.script(
    "table ip signpost { chain services { accept; }; }\ndelete table ip signpost\n",
  );
  assertEquals(await fixture.after(MARKER), "chain of marker");
});

Deno.test("a look finds each kind of difference", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  const { look } = fixture;
  await fc.assert(
    fc.asyncProperty(cluster, async (objects) => {
      await fixture.sync(objects, { full: false });
      assertEquals([await look.structure(), await look.contents()], [undefined, undefined]);
    }),
    { numRuns: 10, endOnFailure: true },
  );
  const cases: readonly (readonly [string, Partial<Drift>, inStructure: boolean])[] = [
    ["delete element inet signpost cluster-ips4 { 10.96.0.1 }", {
      missing: "element of cluster-ips4",
    }, false],
    ["add element inet signpost cluster-ips4 { 10.96.0.9 }", {
      added: "element of cluster-ips4",
    }, false],
    ["flush chain inet signpost cluster-ips", { missing: "rule of cluster-ips" }, true],
    ["add rule inet signpost services drop", { added: "rule of services" }, false],
    ["delete table inet signpost", { missing: "the whole table" }, true],
  ];
  for (const [script, expected, inStructure] of cases) {
    await fixture.sync([SERVICE], { full: true });
    await fixture.kernel.script(script);
    const found = { missing: "", added: "", by: "", isUnconfirmed: true, ...expected };
    assertEquals(await look.contents(), found, script);
    assertEquals(await look.structure() !== undefined, inStructure, script);
  }
});

Deno.test("a large table is never listed at once", async () => {
  await using kernel = await Kernel.create();
  const commands: string[] = [];
  const nft = new Nft({
    run: (argv, stdin) => {
      commands.push(argv.join(" "));
      return kernel.runner.run(argv, stdin);
    },
  });
  const clock = new SystemClock();
  const dataplane = new NftablesDataplane(nft, { clock, weight: 3 });
  const pipeline = new Pipeline();
  const { desired } = pipeline;
  pipeline.load([SERVICE, ...turns(4)]);
  const replace = () => dataplane.apply(dataplane.full(desired));
  assertEquals(dataplane.isLarge, false);
  await replace();
  assertEquals(dataplane.isLarge, true);
  const stop = new AbortController();
  const told: string[] = [];
  const following = followMonitor({
    ...kernel,
    clock,
    logger: new MemoryLogger(),
    onTransaction: ({ missing, added }) => told.push(missing || added),
  }, stop.signal);
  const tell = (name: string) =>
    eventually("the monitor tells", async () => {
      await kernel.script(MARKER.replaceAll("marker", name));
      return told.includes(`chain of ${name}`);
    });
  await tell("begin");
  await kernel.script("delete element inet signpost cluster-ips4 { 10.96.0.1 }");
  assertEquals(await new Look({ nft, dataplane, desired, clock }).structure(), undefined);
  const touched = new Touched();
  touched.add({ elementLines: undefined, touchesStructure: false });
  assertEquals(await repairScript({ nft, dataplane, touched, clock }, desired), undefined);
  await replace();
  assertMatch(await kernel.nft.listTable(), /elements = \{ 10\.96\.0\.1,/);
  await replace();
  await tell("end");
  const ours = told.slice(told.lastIndexOf("chain of begin") + 1, told.indexOf("chain of end"));
  // What was deleted, and put back. All other transactions of ours changed nothing.
  assertEquals(ours.filter((what) => what !== ""), Array(2).fill("element of cluster-ips4"));
  await kernel.script("insert rule inet signpost services drop");
  const script = await repairScript({ nft, dataplane, touched, clock }, desired);
  assertEquals(script?.operations, 1, "where nothing is known, the structure is compared");
  assertEquals(commands.filter((command) => command.includes("list table")), []);
  stop.abort();
  await following;
});

Deno.test("a monitor that was killed is started again", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  await fixture.sync([SERVICE], { full: true });
  for (const pid of await monitors(fixture.kernel)) Deno.kill(pid, "SIGKILL");
  await fixture.kernel.script("delete element inet signpost cluster-ips4 { 10.96.0.1 }");
  assertEquals(
    await eventually("a report", () => fixture.drift.splice(0).join("; ")),
    "element of cluster-ips4",
  );
  await fixture.sync([SERVICE], { full: true });
  await fixture.following();
  assertEquals(await fixture.after(MARKER), "chain of marker");
});

Deno.test("a monitor that lost events is replaced by another one", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  await fixture.sync([SERVICE], { full: true });
  await fixture.following();
  const before = await monitors(fixture.kernel);
  for (const pid of before) Deno.kill(pid, "SIGSTOP");
  const comment = `comment "${"x".repeat(120)}"`;
  await fixture.kernel.script("table inet other { set s { type ipv4_addr; }; }");
  for (let i = 0; i < 8; i++) {
    const element = (_: unknown, j: number) => `10.${i}.${j >> 8}.${j & 255} ${comment}`;
    const elements = Array.from({ length: 20_000 }, element);
    await fixture.kernel.script(`add element inet other s { ${elements.join(", ")} }`);
  }
  await fixture.kernel.script("delete element inet signpost cluster-ips4 { 10.96.0.1 }");
  for (const pid of before) Deno.kill(pid, "SIGCONT");
  assertEquals(
    await eventually("a report", () => fixture.drift.splice(0).join("; ")),
    "element of cluster-ips4",
  );
  assertMatch(fixture.logger.at("debug").join("\n"), /the kernel dropped events/);
  assertEquals((await monitors(fixture.kernel)).filter((pid) => before.includes(pid)), []);
  await fixture.sync([SERVICE], { full: true });
  assertEquals(await fixture.after(MARKER), "chain of marker");
});

Deno.test("a change of source ranges, which may crash nft monitor, is not drift", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  for (const ranges of [ONE_RANGE, TWO_RANGES, [], ONE_RANGE, TWO_RANGES]) {
    await fixture.sync([balanced(ranges)], { full: ranges.length === 2 });
  }
  for (const round of [0, 1]) {
    assertEquals((await fixture.reports(round)).filter((report) => !OURS.test(report)), []);
  }
});

Deno.test("nft monitor holds a few megabytes of a large table", async () => {
  await using kernel = await Kernel.create();
  const elements = Array.from(
    { length: 50_000 },
    (_, i) => `10.${i >> 16}.${i >> 8 & 255}.${i & 255}`,
  );
  await kernel.script(
    `table inet signpost { set cluster-ips4 { type ipv4_addr; elements = { ${elements} }; }; }\n`,
  );
  const command = monitorCommand(await kernel.nft.listSetNames());
  const stop = new AbortController();
  const lines: string[] = [];
  const reading = (async () => {
    for await (const line of kernel.streamer.lines(command, stop.signal)) lines.push(line);
  })();
  await eventually("the monitor tells", async () => {
    await kernel.script(
      "delete element inet signpost cluster-ips4 { 10.0.0.7 }\n" +
        "add element inet signpost cluster-ips4 { 10.0.0.7 }\n",
    );
    return lines.some((line) => line.startsWith("delete element inet signpost cluster-ips4"));
  });
  const [pid] = await monitors(kernel);
  const [, kilobytes = ""] = /VmHWM:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ??
    [];
  assert(Number(kilobytes) < 16_000, kilobytes);
  stop.abort();
  await reading;
  assertMatch(await kernel.nft.listTable(), /10\.0\.195\.79/);
});

/**
 * The drift watch beside the real kernel: our own transactions are silent, others are not.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { DriftWatch } from "../../../lib/backend/nftables/drift/drift.ts";
import { OwnDeletions } from "../../../lib/backend/nftables/drift/own_deletions.ts";
import { SystemClock } from "../../../lib/system/clock.ts";
import { cluster } from "../../support/arbitrary.ts";
import { eventually } from "../../support/eventually.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { MemoryLogger } from "../../source/api/fakes.ts";
import { Kernel } from "./kernel.ts";

/** A dataplane with some services in the kernel, and a watch that is known to follow. */
class Fixture implements AsyncDisposable {
  readonly kernel: Kernel;
  readonly pipeline = new Pipeline({
    configuration: { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] },
  });
  readonly dataplane: NftablesDataplane;
  readonly drift: string[] = [];
  readonly #own = new OwnDeletions();
  readonly #stop = new AbortController();
  #watching: Promise<void> = Promise.resolve();

  constructor(kernel: Kernel) {
    this.kernel = kernel;
    this.dataplane = new NftablesDataplane(kernel.nft, { own: this.#own });
  }

  /** @param options `elements`: how many the table is said to have */
  static async create(
    options: { readonly checkPeriod: number; readonly elements?: number },
  ): Promise<Fixture> {
    const fixture = new Fixture(await Kernel.create());
    try {
      await fixture.sync([], { full: true });
      fixture.watch(options);
      if (options.elements === undefined) await fixture.#following();
    } catch (error) {
      await fixture[Symbol.asyncDispose]();
      throw error;
    }
    return fixture;
  }

  /** Waits until the monitor tells of deletions, and has told of all that there were. */
  async #following(): Promise<void> {
    await eventually("the first report", async () => {
      await this.kernel.script(MARKER);
      return this.drift.length > 0;
    });
    await this.kernel.script(MARKER.replaceAll("marker", "last"));
    await eventually("the last report", () => this.drift.at(-1)?.includes("chain of last"));
    this.drift.length = 0;
  }

  watch({ checkPeriod, elements }: Parameters<typeof Fixture.create>[0]): void {
    const watch = new DriftWatch({
      streamer: this.kernel.streamer,
      nft: this.kernel.nft,
      own: this.#own,
      expectedRules: () => this.dataplane.ruleCounts(this.pipeline.desired.node),
      lookAtElements: () => Promise.resolve(undefined),
      load: () => ({
        ...this.dataplane.load,
        ...(elements !== undefined && { elements }),
      }),
      clock: new SystemClock(),
      logger: new MemoryLogger(),
      checkPeriod,
      onDrift: (missing) => this.drift.push(missing),
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
      : this.dataplane.partial(change, this.pipeline.desired);
    await this.dataplane.apply(partial ?? this.dataplane.full(this.pipeline.desired));
  }

  /** What was reported of a script of another program. */
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

const NEVER = 3_600_000;

/** Another program's doing that leaves nothing behind. */
const MARKER = "add chain inet signpost marker; delete chain inet signpost marker";

const SERVICE = {
  kind: "Service",
  metadata: { name: "web" },
  spec: { clusterIP: "10.96.0.1", ports: [{ port: 80 }] },
};

/**
 * Clusters without source ranges: the monitor of nft 1.0.6 crashes where it prints an element with
 * a range in a concatenation.
 */
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
  const steps = fc.array(fc.tuple(withoutRanges, fc.boolean()), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(steps, async (steps) => {
      for (const [objects, full] of steps) await fixture.sync(objects, { full });
      assertEquals(
        new Map(fixture.dataplane.ruleCounts(fixture.pipeline.desired.node)),
        await fixture.kernel.nft.ruleCounts(),
      );
      assertEquals(await fixture.after(MARKER), "chain of marker");
    }),
    { numRuns: 15, endOnFailure: true },
  );
});

Deno.test("what other programs delete is reported, whatever of the table it is", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER });
  const load = () => fixture.sync([SERVICE], { full: true });
  await load();
  const cases: readonly (readonly [script: string, report: string])[] = [
    ["flush ruleset", "the whole table"],
    ["delete table inet signpost", "the whole table"],
    ["delete element inet signpost cluster-ips4 { 10.96.0.1 }", "element of cluster-ips4"],
    ["flush set inet signpost cluster-ips4", "element of cluster-ips4"],
    ["flush chain inet signpost cluster-ips", "rule of cluster-ips"],
    [
      "delete chain inet signpost nat-prerouting",
      "rule of nat-prerouting, chain of nat-prerouting",
    ],
  ];
  for (const [script, report] of cases) {
    assertEquals(await fixture.after(script), report, script);
    await load();
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

Deno.test("a look at the table finds chains and sets that are gone", async () => {
  await using fixture = await Fixture.create({ checkPeriod: 50 });
  const report = await fixture.after("flush ruleset");
  assertEquals(/the whole table|services4/.test(report), true, report);
});

Deno.test("without a monitor, rules that are deleted from a chain are found by the next look", async () => {
  await using fixture = await Fixture.create({ checkPeriod: NEVER, elements: 1_000_000 });
  await fixture.sync([SERVICE], { full: true });
  assertEquals(await fixture.after("flush chain inet signpost cluster-ips"), "rule of cluster-ips");
});

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import fc from "fast-check";
import { ApplyError, type Progress } from "../../../lib/model/kernel/dataplane.ts";
import {
  NftablesDataplane,
  type NftablesOptions,
} from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { Counts } from "../../../lib/backend/nftables/delta.ts";
import { CLOSE, OPEN, REPLACE } from "../../../lib/backend/nftables/text.ts";
import { FullScript, portionsOf, writePortions } from "../../../lib/backend/nftables/write.ts";
import type { DesiredState } from "../../../lib/model/kernel/desired.ts";
import { cluster } from "../../support/arbitrary.ts";
import { MemoryLogger, realClock } from "../../support/clock_and_log.ts";
import { eventually } from "../../support/eventually.ts";
import { wholeInput } from "../../support/whole_input.ts";
import { listTable } from "../../support/nft_table.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";
import { clusterObjects } from "../../support/cluster.ts";

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };
const PORTIONS = { clock: realClock, logger: new MemoryLogger(), weight: 8 };
const HOOKED =
  "table inet signpost {\n\tchain nat-output {\n\t\ttype nat hook output priority -100;" +
  " policy accept;\n\t}\n}\n";

/** Services with two endpoints each: with the weight 8, two go into one portion. */
const objects = (count = 10) => [...clusterObjects({ services: count, endpoints: 2 })];

function loaded(all: readonly ApiObject[]): Pipeline {
  const pipeline = new Pipeline({ configuration: CLUSTER_CIDR });
  pipeline.load(all);
  return pipeline;
}

/** An `nft` that remembers scripts, and refuses one of them. */
class FakeNft {
  readonly scripts: string[] = [];
  /** The output of `nft list chains`. */
  chains = "";
  refusedScript = -1;
  /** Returns the mark of the next transaction. */
  next = () => "";
  readonly nft = new Nft({
    run: async (argv, stdin) => {
      if (stdin === undefined) {
        const stdout = argv[1] === "list" && argv[2] === "chains" ? this.chains : "";
        return { code: 0, stdout, stderr: "" };
      }
      const text = await wholeInput(stdin);
      const isRefused = this.scripts.length === this.refusedScript;
      this.scripts.push(text);
      const stderr = isRefused ? "Error: Could not process rule: File exists" : "";
      return { code: isRefused ? 1 : 0, stdout: "", stderr };
    },
  }, { next: () => this.next(), taken() {} });
}

/** Returns the portions that a state is written in, and what they count. */
function written(desired: DesiredState, most = PORTIONS.weight) {
  const counts = new Counts();
  const texts: string[] = [];
  const script = new FullScript(desired);
  for (const portion of portionsOf(script, { most, counts })) {
    if (portion === undefined) continue;
    texts.push((texts.length === 0 ? REPLACE : OPEN) + portion.blocks + CLOSE);
  }
  return { texts, counts, cleanup: script.cleanup };
}

function opened(options: Partial<NftablesOptions> = {}) {
  const fake = new FakeNft();
  const dataplane = new NftablesDataplane(fake.nft, { ...PORTIONS, ...options });
  return { fake, dataplane };
}

Deno.test("a table that no packet meets is written in portions, base chains last", async () => {
  let mark = 0;
  const { fake, dataplane } = opened({
    prologue: () => Promise.resolve("delete table ip kube-proxy\n"),
  });
  fake.next = () => `# mark ${++mark}\n`;
  const script = dataplane.full(loaded(objects()).desired);
  await dataplane.apply(script);
  assertEquals(fake.scripts.length, 7);
  assertMatch(fake.scripts.pop() ?? "", /^flush chain inet signpost late-nat-prerouting\n/);
  for (const [i, text] of fake.scripts.entries()) {
    const isLast = i === 5;
    assertEquals(/ hook /.test(text), isLast, text);
    assertEquals(text.startsWith("delete table ip kube-proxy\n"), isLast);
    assertEquals(text.includes("delete table inet signpost\n"), i === 0);
    assert(text.endsWith(`# mark ${i + 1}\n`));
  }
  assertEquals(dataplane.elements.get("endpoints-tcp4"), 20);
  assertEquals(dataplane.progress, undefined);
});

Deno.test("a table that packets meet is replaced in one transaction", async () => {
  const { fake, dataplane } = opened();
  await dataplane.apply(dataplane.full(loaded(objects(1)).desired));
  assertEquals(fake.scripts.length, 2);
  fake.chains = HOOKED;
  await dataplane.apply(dataplane.full(loaded(objects()).desired));
  assertEquals(fake.scripts.length, 4);
  fake.chains = HOOKED.replace(/\t\ttype.*\n/, "");
  await dataplane.apply(dataplane.full(loaded(objects()).desired));
  assert(fake.scripts.length > 6, "a table without a hook is half of one");
  fake.chains = HOOKED.replace("inet signpost", "inet other");
  const before = fake.scripts.length;
  await dataplane.apply(dataplane.full(loaded(objects()).desired));
  assert(fake.scripts.length > before + 2, "the hooks of others count for nothing");
});

Deno.test("a portion that is refused ends the rest", async () => {
  const { fake, dataplane } = opened();
  const { desired } = loaded(objects());
  fake.refusedScript = 2;
  await assertRejects(() => dataplane.apply(dataplane.full(desired)), ApplyError);
  assertEquals(fake.scripts.length, 3);
  assertEquals(dataplane.progress, undefined);
  fake.scripts.length = 0;
  fake.refusedScript = -1;
  await dataplane.apply(dataplane.full(desired));
  assertMatch(fake.scripts[0] ?? "", /^add table inet signpost\ndelete table inet signpost\n/);
  assertMatch(fake.scripts.at(-2) ?? "", / hook /);
});

/** An `nft` that takes what it is given when the test says so, and tells what of each script it has. */
class WaitingNft {
  readonly read: string[] = [];
  readonly taken: PromiseWithResolvers<number>[] = [];
  readonly nft = new Nft({
    run: async (_argv, stdin = "") => {
      const index = this.taken.push(Promise.withResolvers()) - 1;
      this.read[index] = "";
      for await (const piece of stdin) this.read[index] += piece;
      return { code: await this.taken[index]?.promise ?? 0, stdout: "", stderr: "" };
    },
  }, { next: () => "# mark\n", taken() {} });
}

Deno.test("nft reads the next portion while the kernel takes one", async () => {
  const { nft, read, taken } = new WaitingNft();
  const { desired } = loaded(objects());
  const writing = writePortions(new FullScript(desired), {
    ...PORTIONS,
    counts: new Counts(),
    nft,
    prologue: () => Promise.resolve("# prologue\n"),
    onProgress: () => {},
    checkpoint: () => {},
  });
  const isWhole = () => read.map((text) => text.endsWith("\n}\n# mark\n"));
  const { length } = written(desired).texts;
  for (let i = 0; i < length; i++) {
    const isLast = i === length - 1;
    const expected = [...Array(i + 1).fill(true), ...isLast ? [] : [false]];
    await eventually("as much is read as may be", () => {
      assertEquals(isWhole(), expected);
      return read.every((text) => text !== "");
    });
    assertEquals(read.length, expected.length, "no third nft");
    taken[i]?.resolve(0);
  }
  await writing;
  assert(read.at(-1)?.startsWith("# prologue\n"));
});

Deno.test("of a portion that is cut off before its end the kernel takes nothing", async () => {
  await using kernel = await Kernel.create();
  const [first = "", second = ""] = written(loaded(objects()).desired).texts;
  await kernel.script(first);
  const before = await listTable(kernel.prefix);
  await assertRejects(() => kernel.script(second.slice(0, -2)));
  assertEquals(await listTable(kernel.prefix), before);
});

Deno.test("the first portion tells the number of portions if Services have one size", async () => {
  const { desired } = loaded(objects(100));
  const estimates: number[] = [];
  const { fake, dataplane } = opened();
  fake.next = () => {
    estimates.push(dataplane.progress?.of ?? 0);
    return "";
  };
  await dataplane.apply(dataplane.full(desired));
  const { texts, cleanup } = written(desired);
  assertEquals(fake.scripts, [...texts, cleanup]);
  assertEquals(new Set(estimates.slice(0, -1)), new Set([texts.length]));
});

Deno.test("writing ends between two portions at a stop", async () => {
  const { fake, dataplane } = opened();
  const { desired } = loaded(objects());
  const ended = new Error("ended");
  const end = () => {
    if (fake.scripts.length === 2) throw ended;
  };
  const error = await assertRejects(() => dataplane.apply(dataplane.full(desired), end));
  assertEquals(error, ended);
  assertEquals(fake.scripts.length, 2);
});

Deno.test("the progress is logged once after 10 s", async () => {
  const logger = new MemoryLogger();
  const seen: (Progress | undefined)[] = [];
  let now = 0;
  const clock = { monotonic: () => now, sleep: () => Promise.resolve() };
  const { fake, dataplane } = opened({ clock, logger });
  fake.next = () => {
    now += 4_000;
    seen.push(dataplane.progress);
    return "";
  };
  const { desired } = loaded(objects());
  await dataplane.apply(dataplane.full(desired));
  const { length: of } = written(desired).texts;
  assertEquals(seen.slice(0, -1), Array.from({ length: of }, (_, done) => ({ done, of })));
  const lines = logger.lines.filter((line) => line.includes("portions"));
  assertEquals(lines.length, 1, logger.lines.join("\n"));
  assertMatch(lines[0] ?? "", new RegExp(`3 of ${of}`));
});

Deno.test("portions leave in the kernel what one transaction does", async () => {
  await using kernel = await Kernel.create();
  await fc.assert(
    fc.asyncProperty(cluster, fc.integer({ min: 1, max: 12 }), async (all, weight) => {
      const { desired } = loaded(all);
      const flush = "add table inet signpost\ndelete table inet signpost\n";
      await kernel.script(flush);
      const { texts, cleanup } = written(desired, weight);
      for (const [i, text] of texts.entries()) {
        await kernel.script(text);
        const isLast = i === texts.length - 1;
        assertEquals((await kernel.nft.listHookedTables()).length, isLast ? 1 : 0);
      }
      await kernel.script(cleanup);
      const inPortions = await listTable(kernel.prefix);
      await kernel.script(flush + new FullScript(desired).text);
      assertEquals(inPortions, await listTable(kernel.prefix));
      const dataplane = new NftablesDataplane(kernel.nft);
      await dataplane.apply(dataplane.full(desired));
      assertEquals(inPortions, await listTable(kernel.prefix));
      assertEquals(written(desired, weight).counts, written(desired, Infinity).counts);
    }),
    { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 20) },
  );
});

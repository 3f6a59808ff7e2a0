import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/kernel/nft.ts";
import type { ProcessRunner } from "../../../lib/model/ports/ports.ts";
import { cluster } from "../../support/arbitrary.ts";
import { MemoryLogger, realClock } from "../../support/clock_and_log.ts";
import { wholeInput } from "../../support/command.ts";
import { listTable } from "../../support/nft_table.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };
const T = "inet signpost";

/** A kernel in which every table is a large one; `mostListed` slots are read back. */
class Stage implements AsyncDisposable {
  /** The scripts that were written. */
  readonly scripts: string[] = [];
  /** Listings that nft fails at. */
  unreadable: RegExp | undefined;
  /** Scripts of which the kernel has more to tell than nft can take. */
  unheard: RegExp | undefined;
  /** What ends another proxy's tables. */
  prologue = "";
  readonly #runner: ProcessRunner;

  private constructor(readonly kernel: Kernel, readonly mostListed: number) {
    this.#runner = {
      run: (argv, stdin) => {
        const text = stdin === undefined ? undefined : wholeInput(stdin);
        if (text !== undefined) this.scripts.push(text);
        if (this.unreadable?.test(argv.join(" "))) {
          return Promise.resolve({ code: 1, stdout: "", stderr: "Error: cannot list it" });
        }
        if (text !== undefined && this.unheard?.test(text)) {
          const stderr = "netlink: Error: Could not process rule: No buffer space available";
          return Promise.resolve({ code: 1, stdout: "", stderr });
        }
        return kernel.runner.run(argv, text);
      },
    };
  }

  static async create(mostListed: number): Promise<Stage> {
    return new Stage(await Kernel.create(), mostListed);
  }

  /** Starts a daemon with these objects, whatever the kernel holds. */
  async start(objects: readonly ApiObject[]) {
    const pipeline = new Pipeline({ configuration: CLUSTER_CIDR });
    pipeline.load(objects);
    const { mostListed } = this;
    const dataplane = new NftablesDataplane(new Nft(this.#runner), {
      prologue: () => Promise.resolve(this.prologue),
      portions: { clock: realClock, logger: new MemoryLogger(), weight: 3, mostListed },
    });
    this.scripts.length = 0;
    const script = dataplane.full(pipeline.desired);
    await dataplane.apply(script);
    return { pipeline, dataplane, script };
  }

  /** How often the table was replaced since the last start. */
  get replacements(): number {
    return this.scripts.filter((text) => text.includes(`delete table ${T}`)).length;
  }

  listing(): Promise<readonly string[]> {
    return listTable(this.kernel.prefix);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kernel[Symbol.asyncDispose]();
  }
}

/** Services with two endpoints each; some may have another second endpoint. */
function objects(count: number, changed: readonly number[] = []): ApiObject[] {
  return Array.from({ length: count }, (_, i) => i).flatMap((i): ApiObject[] => [
    {
      kind: "Service",
      metadata: { name: `s${i}` },
      spec: {
        clusterIP: `10.96.0.${i + 1}`,
        ports: [{ port: 80 }],
        ...(i === 0 && { sessionAffinity: "ClientIP" }),
      },
    },
    {
      kind: "EndpointSlice",
      metadata: { name: `s${i}`, labels: { "kubernetes.io/service-name": `s${i}` } },
      addressType: "IPv4",
      ports: [{ port: 8080 }],
      endpoints: [
        { addresses: [`10.244.1.${i}`] },
        { addresses: [`10.244.${changed.includes(i) ? 3 : 2}.${i}`] },
      ],
    },
  ]);
}

for (const mostListed of [0, 1_000]) {
  const how = mostListed === 0 ? "added again" : "read back";
  Deno.test(`a live table of the same state is not written again, and clients stay: slots are ${how}`, async () => {
    await using stage = await Stage.create(mostListed);
    const { kernel } = stage;
    const first = await stage.start(objects(10));
    assertEquals(stage.replacements, 1);
    const [, set = ""] = /set (affinity4-\S+)/.exec(await kernel.nft.listTable()) ?? [];
    await kernel.script(`add element ${T} ${set} { 192.0.2.1 timeout 3h expires 2h }`);
    const before = await kernel.nft.listStructure();
    const second = await stage.start(objects(10));
    assertEquals(stage.scripts.filter((text) => !text.startsWith("add element")), []);
    assertEquals(stage.scripts.length > 0, mostListed === 0);
    assertEquals(await kernel.nft.listStructure(), before);
    assertEquals((await kernel.nft.listSets()).includes("192.0.2.1 timeout 3h expires 1h59"), true);
    const { bytes: _, operations: __, ...known } = first.script.contents;
    const { bytes: ___, operations: ____, ...found } = second.script.contents;
    assertEquals(found, known);
  });

  Deno.test(`what differs of a live table is written, and nothing else: slots are ${how}`, async () => {
    await using stage = await Stage.create(mostListed);
    await stage.start(objects(10));
    await stage.kernel.script(
      `delete element ${T} services4 { 10.96.0.3 . tcp . 80 }\n` +
        `delete element ${T} endpoints-tcp4 { 10.96.0.4 . 80 . 1 }\n` +
        `insert rule ${T} services drop\n`,
    );
    await stage.start(objects(11));
    assertEquals(stage.replacements, 0);
    const found = await stage.listing();
    await using other = await Stage.create(mostListed);
    await other.start(objects(11));
    assertEquals(found, await other.listing());
  });
}

Deno.test("a table whose structure or slots cannot be mended is replaced in one transaction", async () => {
  await using stage = await Stage.create(0);
  await stage.start(objects(10));
  await stage.start(objects(10, [4]));
  assertEquals(stage.replacements, 1, "another endpoint in a slot of a large map");
  await stage.start(objects(9, [4]));
  assertEquals(stage.replacements, 1, "a Service whose slots would stay");
  await stage.kernel.script(`add counter ${T} foreign`);
  await stage.start(objects(9, [4]));
  assertEquals(stage.replacements, 1, "something that is not ours");
});

Deno.test("a table that nft cannot read back is replaced", async () => {
  for (const unreadable of [/list map inet signpost services4/, /-t list ruleset/]) {
    await using stage = await Stage.create(0);
    await stage.start(objects(3));
    stage.unreadable = unreadable;
    await stage.start(objects(3));
    assertEquals(stage.replacements, 1, `${unreadable}`);
  }
});

Deno.test("another proxy's tables go after a table that was read back is in the state", async () => {
  await using stage = await Stage.create(0);
  await stage.start(objects(3));
  stage.prologue = "add table ip other\ndelete table ip other\n";
  await stage.kernel.script(`delete element ${T} services4 { 10.96.0.3 . tcp . 80 }`);
  await stage.start(objects(3));
  assertEquals(stage.replacements, 0);
  assertEquals(stage.scripts.at(-1), stage.prologue);
  assertEquals(stage.scripts.filter((text) => text.includes("ip other")).length, 1);
});

Deno.test("a port that takes turns and lost its last endpoint leaves no slot in a large map", async () => {
  const some = (gone: boolean): ApiObject[] => {
    const others = objects(4).slice(4);
    const [service, slice] = objects(2).slice(2);
    if (!service || !slice) throw new Error("no Service");
    const annotations = { "signpost.dev/scheduler": "round-robin" };
    const endpoints = [1, 2, 3].map((i) => ({ addresses: [`10.244.1.${i}`] }));
    return [
      ...others,
      { ...service, metadata: { ...service.metadata, annotations } },
      { ...slice, endpoints: gone ? endpoints.slice(0, 2) : endpoints },
    ];
  };
  await using stage = await Stage.create(0);
  await stage.start(some(false));
  await stage.start(some(true));
  assertEquals(stage.replacements, 1);
  await using other = await Stage.create(0);
  await other.start(some(true));
  assertEquals(await stage.listing(), await other.listing());
});

Deno.test("where the kernel cannot tell of all slots that do not fit, the table is replaced", async () => {
  await using stage = await Stage.create(0);
  await stage.start(objects(3));
  stage.unheard = /^add element .* endpoints-tcp4 /;
  await stage.start(objects(3, [1]));
  assertEquals(stage.replacements, 1);
});

Deno.test("start(A), start(B) and a step to C leave the kernel as start(C) does", async () => {
  await fc.assert(
    fc.asyncProperty(
      cluster,
      cluster,
      cluster,
      fc.constantFrom(0, 3, 1_000),
      async (a, b, c, mostListed) => {
        await using stage = await Stage.create(mostListed);
        await stage.start(a);
        const { pipeline, dataplane } = await stage.start(b);
        const { change } = pipeline.load(c);
        const step = dataplane.partial(change, pipeline.desired);
        if (!step) throw new Error("the node did not change");
        await dataplane.apply(step);
        await using fresh = await Stage.create(mostListed);
        await fresh.start(c);
        assertEquals(await stage.listing(), await fresh.listing());
      },
    ),
    { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 20) },
  );
});

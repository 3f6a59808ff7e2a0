import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import fc from "fast-check";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import type { ProcessResult, ProcessRunner } from "../../../lib/model/ports/ports.ts";
import { cluster } from "../../support/arbitrary.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { wholeInput } from "../../support/whole_input.ts";
import { listTable } from "../../support/nft_table.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";
import { service, slice } from "../../support/cluster.ts";

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };
const T = "inet signpost";

/** A kernel in which every table is a large one. */
class Stage implements AsyncDisposable {
  /** The scripts that were written. */
  readonly scripts: string[] = [];
  /** Listings that nft fails at. */
  unreadable: RegExp | undefined;
  /** Scripts of which the kernel has more to tell than nft can take. */
  unheard: RegExp | undefined;
  /** See `Portions`. */
  weight = 3;
  /** After each script, the verdicts of Services that led to a chain without rules. */
  leadingNowhere: string[][] | undefined;
  /** The commands that delete another proxy's tables. */
  prologue = "";
  /** The progress of scripts: `nft` begins one, has read it to its end, and has ended. */
  readonly events: ("begun" | "read" | "ended")[] = [];
  readonly #runner: ProcessRunner;

  private constructor(readonly kernel: Kernel) {
    this.#runner = {
      run: async (argv, stdin) => {
        if (stdin === undefined) return await this.#run(argv);
        this.events.push("begun");
        const text = await wholeInput(stdin);
        this.scripts.push(text);
        this.events.push("read");
        try {
          return await this.#run(argv, text);
        } finally {
          this.events.push("ended");
        }
      },
    };
  }

  async #run(argv: readonly [string, ...string[]], text?: string): Promise<ProcessResult> {
    if (this.unreadable?.test(argv.join(" "))) {
      return { code: 1, stdout: "", stderr: "Error: cannot list it" };
    }
    if (text !== undefined && this.unheard?.test(text)) {
      const stderr = "netlink: Error: Could not process rule: No buffer space available";
      return { code: 1, stdout: "", stderr };
    }
    const result = await this.kernel.runner.run(argv, text);
    if (text !== undefined) {
      this.leadingNowhere?.push(leadingNowhere(await this.kernel.nft.listTable()));
    }
    return result;
  }

  static async create(): Promise<Stage> {
    return new Stage(await Kernel.create());
  }

  /** Starts a daemon with these objects, whatever the kernel holds. */
  async start(objects: readonly ApiObject[], checkpoint?: () => void) {
    const pipeline = new Pipeline({ configuration: CLUSTER_CIDR });
    pipeline.load(objects);
    const dataplane = new NftablesDataplane(new Nft(this.#runner), {
      prologue: () => Promise.resolve(this.prologue),
      clock: realClock,
      weight: this.weight,
    });
    this.scripts.length = 0;
    this.events.length = 0;
    const script = dataplane.full(pipeline.desired);
    await dataplane.apply(script, checkpoint);
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

/** Services with two endpoints each, or three; some may have another second endpoint. */
function objects(count: number, changed: readonly number[] = [], each = 2): ApiObject[] {
  return Array.from({ length: count }, (_, i) => i).flatMap((i): ApiObject[] => [
    service({
      name: `s${i}`,
      clusterIP: `10.96.0.${i + 1}`,
      ...(i === 0 && { sessionAffinity: "ClientIP" }),
    }),
    slice({
      service: `s${i}`,
      endpoints: [
        `10.244.1.${i}`,
        `10.244.${changed.includes(i) ? 3 : 2}.${i}`,
        ...(each === 3 ? [`10.244.4.${i}`] : []),
      ],
    }),
  ]);
}

Deno.test("a stopped read-back or addition replaces nothing", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(10));
  let parts = 0;
  await stage.start(objects(10), () => void parts++);
  assert(parts > 10, `${parts} parts`);
  assertEquals(stage.replacements, 0);
  for (const last of [1, parts - 1]) {
    let part = 0;
    const end = () => {
      if (++part === last) throw new Error("ended");
    };
    await assertRejects(() => stage.start(objects(9, [1]), end), Error, "ended");
    assertEquals([part, stage.replacements], [last, 0]);
  }
});

function leadingNowhere(table: string): string[] {
  const empty = new Set(
    [...table.matchAll(/^\tchain (\S+) \{\n\t\}/gm)].map(([, name = ""]) => name),
  );
  return [...table.matchAll(/: goto ([\w-]+)/g)].map(([, name = ""]) => name).filter((name) =>
    empty.has(name)
  );
}

/** Returns the table that a daemon makes of these objects from nothing. */
async function fresh(all: readonly ApiObject[]): Promise<readonly string[]> {
  await using stage = await Stage.create();
  await stage.start(all);
  return await stage.listing();
}

Deno.test("a live table of the same state keeps its clients", async () => {
  await using stage = await Stage.create();
  const { kernel } = stage;
  stage.weight = 50;
  const first = await stage.start(objects(10));
  assertEquals(stage.replacements, 1);
  const [, set = ""] = /set (affinity4-\S+)/.exec(await kernel.nft.listTable()) ?? [];
  await kernel.script(`add element ${T} ${set} { 192.0.2.1 timeout 3h expires 2h }`);
  const before = await kernel.nft.listStructure();
  const second = await stage.start(objects(10));
  assertEquals([first, second].map(({ dataplane }) => dataplane.hasWritten), [true, false]);
  assertEquals(stage.scripts.map((text) => text.split(" {")[0]), [
    `add element ${T} endpoints-tcp4`,
  ]);
  assertEquals(await kernel.nft.listStructure(), before);
  assertEquals((await kernel.nft.listSets()).includes("192.0.2.1 timeout 3h expires 1h59"), true);
  const [known, found] = [first, second].map(({ dataplane }) => dataplane);
  assertEquals(found?.elements, known?.elements);
  assertEquals(found?.ruleCounts, known?.ruleCounts);
});

Deno.test("only what differs of a live table is written", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(10));
  await stage.kernel.script(
    `delete element ${T} services4 { 10.96.0.3 . tcp . 80 }\n` +
      `delete element ${T} endpoints-tcp4 { 10.96.0.4 . 80 . 1 }\n` +
      `insert rule ${T} services drop\n`,
  );
  await stage.start(objects(11));
  assertEquals(stage.replacements, 0);
  assertEquals(await stage.listing(), await fresh(objects(11)));
});

Deno.test("base chains of a live table that have other priorities get theirs", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(10));
  for (const hook of ["prerouting", "output"]) {
    const chain = `chain ${T} nat-${hook}`;
    await stage.kernel.script(
      `delete ${chain}\nadd ${chain} { type nat hook ${hook} priority -100; }\n` +
        `add rule ${T} nat-${hook} jump services\n`,
    );
  }
  await stage.start(objects(10));
  assertEquals(stage.replacements, 0);
  assertEquals(await stage.listing(), await fresh(objects(10)));
  // A packet that meets neither chain meets a copy, which is there before the move and after it.
  const steps = ["add chain late-", "delete chain ", "delete chain late-"].map((words) => {
    const command = `${words.replace("chain", `chain ${T}`)}nat-output`;
    return stage.scripts.findIndex((text) =>
      text.split("\n").some((line) => line.startsWith(command))
    );
  });
  assertEquals(steps, [0, 1, 2].map((i) => (steps[0] ?? 0) + i));
  assert((steps[0] ?? -1) >= 0);
});

Deno.test("source ranges of a small table are in the kernel before packets meet them", async () => {
  await using stage = await Stage.create();
  stage.weight = 25_000;
  const ranged = [
    service({
      type: "LoadBalancer",
      ingress: ["192.0.2.1"],
      loadBalancerSourceRanges: ["198.51.100.0/24"],
    }),
    slice({ endpoints: ["10.244.1.1"] }),
  ];
  await stage.start(ranged);
  const [ranges = -1, hooks = -1] = [/source-ranges-tcp4 \{\n.*\n +elements/, / hook /]
    .map((part) => stage.scripts.findIndex((text) => part.test(text)));
  assertEquals([ranges, hooks], [0, 1]);
  // The kernel keeps the set: a new one is empty until the end of its transaction.
  await stage.start(ranged);
  assertEquals(stage.replacements, 0);
});

Deno.test("slots that changed while signpost was down are replaced, those that are left go", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(10));
  for (
    const [what, all] of [
      ["another endpoint in some slots", objects(10, [4, 7])],
      ["Services that are gone", objects(7, [3])],
      ["Services that came, and other endpoints", objects(12, [3, 5])],
      ["one endpoint less", objects(12, [3, 5]).map(withoutSecond(5))],
      ["and one more, and another one", objects(12, [6])],
      [
        "no endpoint",
        objects(12).filter(({ metadata, kind }) => kind === "Service" || metadata?.name !== "s5"),
      ],
      ["most Services gone", objects(2)],
    ] as const
  ) {
    await stage.start(all);
    assertEquals(stage.replacements, 0, what);
    assertEquals(await stage.listing(), await fresh(all), what);
  }
});

function withoutSecond(i: number): (object: ApiObject) => ApiObject {
  return (object) =>
    object.kind === "EndpointSlice" && object.metadata?.name === `s${i}`
      ? { ...object, endpoints: [{ addresses: [`10.244.1.${i}`] }] }
      : object;
}

Deno.test("nft reads the next slots while the kernel takes some", async () => {
  await using stage = await Stage.create();
  stage.weight = 12;
  await stage.start(objects(20));
  for (const all of [objects(20), objects(20, [0, 5, 9, 12, 18])]) {
    await stage.start(all);
    assertEquals(stage.replacements, 0);
    const order = stage.events.join(" ");
    // The next one has begun, and its end comes when the one before has ended.
    assertMatch(order, /(begun|read) begun/);
    assertMatch(order.replaceAll("begun ", ""), /^(read ended ?)+$/);
  }
  assertEquals(await stage.listing(), await fresh(objects(20, [0, 5, 9, 12, 18])));
});

Deno.test("portions that follow one that does not fit are replaced untried", async () => {
  await using stage = await Stage.create();
  stage.weight = 8;
  const all = (second: number) =>
    objects(60, Array.from({ length: 60 }, (_, i) => i).filter((i) => i % 2 === second));
  await stage.start(all(0));
  await stage.start(all(1));
  const beginning = (verb: string) =>
    stage.scripts.filter((text) => text.startsWith(`${verb} element ${T} endpoints-tcp4 `)).length;
  const [tried, replaced] = [beginning("add"), beginning("delete")];
  // Of each, there may be more under way when it shows; and each one is replaced.
  assert(tried > 3 && tried < 12, `${tried} tried`);
  assertEquals(replaced, 30);
  assertEquals([stage.replacements, await stage.listing()], [0, await fresh(all(1))]);
  await stage.start(objects(60, [8, ...Array.from({ length: 30 }, (_, i) => 2 * i + 1)]));
  assert(beginning("delete") < 4, "one, and one or two that follow");
});

Deno.test("slots that another program changed are corrected where packets look", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(10));
  await stage.kernel.script(
    `delete element ${T} endpoints-tcp4 { 10.96.0.4 . 80 . 1, 10.96.0.6 . 80 . 0 }\n` +
      `add element ${T} endpoints-tcp4 { 10.96.0.6 . 80 . 0 : 192.0.2.1 . 1 }\n` +
      `add element ${T} endpoints-tcp4 { 10.96.0.11 . 80 . 1 : 192.0.2.1 . 1 }\n`,
  );
  await stage.start(objects(11, [5, 8]));
  assertEquals(stage.replacements, 0);
  assertEquals(await stage.listing(), await fresh(objects(11, [5, 8])));
  await stage.kernel.script(
    `delete element ${T} endpoints-tcp4 { 10.96.0.4 . 80 . 1 }\n` +
      `delete element ${T} endpoints-tcp4 { 10.96.0.11 . 80 . 1 }\n`,
  );
  await stage.start(objects(3));
  assertEquals(stage.replacements, 0, "some of those that go are gone already");
  assertEquals(await stage.listing(), await fresh(objects(3)));
});

Deno.test("what no packet could do without comes before what leads to it, and goes after it", async () => {
  await using stage = await Stage.create();
  stage.weight = 24;
  await stage.start(objects(6));
  await stage.start(objects(8, [4]).filter(({ metadata }) => metadata?.name !== "s2"));
  const verbs = stage.scripts.map((text) =>
    [...text.matchAll(/^(\w+ \w+) inet signpost (\S+)/gm)].map(([, verb, name]) =>
      `${verb} ${name}`
    ).filter((line) => / (endpoints-tcp4|services4)$/.test(line))
  );
  assertEquals(verbs, [
    ["add element endpoints-tcp4"],
    ["delete element endpoints-tcp4", "add element endpoints-tcp4"],
    ["delete element services4", "add element services4"],
    ["delete element endpoints-tcp4"],
  ]);
});

Deno.test("very many frontends are changed in portions", async () => {
  await using stage = await Stage.create();
  stage.weight = 12;
  await stage.start(objects(20));
  const left = objects(20).filter(({ metadata }) => Number(metadata?.name?.slice(1)) > 12);
  await stage.start(left);
  assertEquals(stage.replacements, 0);
  const most = Math.max(...stage.scripts.map((text) => text.match(/^ *10\./gm)?.length ?? 0));
  assert(most > 6 && most <= 12, `${most}`);
  assertEquals(await stage.listing(), await fresh(left));
});

Deno.test("chains that go are emptied when no Service leads to them any more", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(20));
  stage.weight = 5;
  stage.leadingNowhere = [];
  await stage.start(objects(20, [], 3));
  assertEquals(stage.replacements, 0);
  assert(stage.leadingNowhere.length > 8, `${stage.leadingNowhere.length} scripts`);
  assertEquals(stage.leadingNowhere.flat(), []);
});

Deno.test("a table with something that is not ours is replaced in one transaction", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(9, [4]));
  await stage.kernel.script(`add counter ${T} foreign`);
  const { dataplane } = await stage.start(objects(9, [4]));
  assertEquals(stage.replacements, 1);
  assertEquals(dataplane.hasWritten, true);
});

Deno.test("a table that nft cannot read back is replaced", async () => {
  for (const unreadable of [/list map inet signpost services4/, /-t list ruleset/]) {
    await using stage = await Stage.create();
    await stage.start(objects(3));
    stage.unreadable = unreadable;
    await stage.start(objects(3));
    assertEquals(stage.replacements, 1, `${unreadable}`);
  }
});

Deno.test("another proxy's tables go after a table that was read back is in the state", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(3));
  stage.prologue = "add table ip other\ndelete table ip other\n";
  await stage.kernel.script(`delete element ${T} services4 { 10.96.0.3 . tcp . 80 }`);
  await stage.start(objects(3));
  assertEquals(stage.replacements, 0);
  assertEquals(stage.scripts.at(-1), stage.prologue);
  assertEquals(stage.scripts.filter((text) => text.includes("ip other")).length, 1);
});

Deno.test("a port that takes turns and lost its last endpoint leaves no slot in a large map", async () => {
  const annotations = { "signpost.dev/scheduler": "round-robin" };
  const some = (...endpoints: readonly string[]) => [
    ...objects(4),
    service({ name: "turns", metadata: { annotations }, clusterIP: "10.96.0.9" }),
    slice({ service: "turns", endpoints }),
  ];
  const [one, two, three] = ["10.244.5.1", "10.244.5.2", "10.244.5.3"] as const;
  await using stage = await Stage.create();
  await stage.start(some(one, two, three));
  await stage.start(some(one, two));
  assertEquals(stage.replacements, 0);
  assertEquals(await stage.listing(), await fresh(some(one, two)));
});

Deno.test("unknown slots are replaced in smaller portions", async () => {
  await using stage = await Stage.create();
  stage.weight = 32;
  await stage.start(objects(9));
  stage.unheard = /(?:80 \. \d+ :[^]*){6}/;
  await stage.start(objects(9, [1]));
  assertEquals(stage.replacements, 0);
  assertEquals(await stage.listing(), await fresh(objects(9, [1])));
});

Deno.test("where the kernel takes a slot in no way, the table is replaced", async () => {
  await using stage = await Stage.create();
  await stage.start(objects(3));
  stage.unheard = /^(?:add|delete) element .* endpoints-tcp4 /;
  await stage.start(objects(3, [1]));
  assertEquals(stage.replacements, 1);
});

Deno.test("start(A), start(B) and a step to C leave the kernel as start(C) does", async () => {
  await fc.assert(
    fc.asyncProperty(cluster, cluster, cluster, fc.constantFrom(8, 40), async (a, b, c, weight) => {
      await using stage = await Stage.create();
      stage.weight = weight;
      await stage.start(a);
      const { pipeline, dataplane } = await stage.start(b);
      await dataplane.apply(pipeline.step(dataplane, c));
      assertEquals(await stage.listing(), await fresh(c));
    }),
    { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 20) },
  );
});

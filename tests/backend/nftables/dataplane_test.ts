import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import fc from "fast-check";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { maglevTable } from "../../../lib/backend/nftables/pick.ts";
import { Marks, Nft } from "../../../lib/backend/nftables/nft.ts";
import { cluster } from "../../support/arbitrary.ts";
import { wholeInput } from "../../support/whole_input.ts";
import { type ApiObject, NODE_NAME, Pipeline } from "../../support/pipeline.ts";
import { SILENT_RUNNER } from "../../support/modes.ts";
import { Kernel } from "./kernel.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import {
  type Fields,
  node,
  service as buildService,
  serviceCIDR,
  slice as buildSlice,
} from "../../support/cluster.ts";

/** An `nft` that remembers scripts without what they list, and refuses when told. */
class FakeNft {
  readonly scripts: string[] = [];
  refuse = false;
  refuses = (_script: string) => this.refuse;
  readonly nft = new Nft({
    run: async (_argv, stdin) => {
      if (stdin === undefined) return { code: 0, stdout: "", stderr: "" };
      const script = (await wholeInput(stdin)).replace(/^list .*\n/gm, "");
      this.scripts.push(script);
      const isRefused = this.refuses(script);
      const stderr = isRefused ? "Error: Could not process rule: File exists" : "";
      return { code: isRefused ? 1 : 0, stdout: "", stderr };
    },
  });
}

const service = (name: string, spec: Fields = {}) => buildService({ name, ...spec });

/** The address of an endpoint by its number. */
function address(number: number): string {
  return `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;
}

/** A slice with these endpoints. */
function slice(name: string, serviceName: string, numbers: readonly number[]): ApiObject {
  return buildSlice({ name, service: serviceName, endpoints: numbers.map(address) });
}

/** Slices of a hundred endpoints each. */
function slices(serviceName: string, numbers: readonly number[]): ApiObject[] {
  return Array.from(
    { length: Math.ceil(numbers.length / 100) },
    (_, i) => slice(`${serviceName}-${i}`, serviceName, numbers.slice(100 * i, 100 * (i + 1))),
  );
}

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

/** The full script of some objects, and the partial scripts of the steps after it. */
async function stepsOf(
  ...states: readonly (readonly ApiObject[])[]
): Promise<{ readonly operations: number; readonly text: string }[]> {
  const dataplane = new NftablesDataplane(new Nft(SILENT_RUNNER));
  const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.0.0.0/8"] } });
  const scripts = [];
  for (const [i, objects] of states.entries()) {
    if (i === 0) pipeline.load(objects);
    const script = i === 0 ? dataplane.full(pipeline.desired) : pipeline.step(dataplane, objects);
    await dataplane.apply(script);
    scripts.push(script);
  }
  return scripts;
}

Deno.test("the same objects give the same bytes, in whatever order they come", () => {
  const shuffled = cluster.chain((objects) =>
    fc.tuple(fc.constant(objects), fc.shuffledSubarray(objects, { minLength: objects.length }))
  );
  const textOf = (objects: readonly ApiObject[]) => {
    const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
    pipeline.load(objects);
    return new NftablesDataplane(new Nft(SILENT_RUNNER)).full(pipeline.desired).text;
  };
  fc.assert(fc.property(shuffled, ([objects, others]) => {
    assertEquals(textOf(others), textOf(objects));
  }));
});

interface Step {
  readonly name: string;
  /** The endpoints before, by how many there are, and after. */
  readonly before: (count: number) => number[];
  readonly after: (count: number) => number[];
  /** How many objects of the table may be touched. */
  readonly most: number;
}

const STEPS: readonly Step[] = [
  {
    name: "is replaced",
    before: range,
    after: (count) => range(count).map((each) => each === 50 ? 1_000_000 : each),
    most: 2,
  },
  {
    name: "goes",
    before: range,
    after: (count) => range(count).filter((each) => each !== 50),
    most: 9,
  },
  { name: "comes", before: range, after: (count) => [...range(count), 1_000_000], most: 9 },
];

for (const { name, before, after, most } of STEPS) {
  Deno.test(`one endpoint of 10,000 ${name}: as few operations as among 100`, async () => {
    const operations = [];
    for (const count of [100, 10_000]) {
      const [, step] = await stepsOf(
        [service("web"), ...slices("web", before(count))],
        [service("web"), ...slices("web", after(count))],
      );
      operations.push(step?.operations ?? 0);
    }
    const [few = 0, many = 0] = operations;
    assertEquals(many, few);
    assert(many > 0 && many <= most, `${many} operations`);
  });
}

Deno.test("the loss of one of ten endpoints changes only its slots of the hash", async () => {
  const web = {
    ...service("web"),
    metadata: { name: "web", annotations: { "signpost.dev/scheduler": "consistent-hash" } },
  };
  const left = range(10).filter((each) => each !== 5);
  const [, step] = await stepsOf([web, ...slices("web", range(10))], [web, ...slices("web", left)]);
  const [before, after] = [range(10), left].map((numbers) =>
    maglevTable(numbers.map((number) => ({ address: address(number), port: 8080 })), 251)
  );
  const changed = (before ?? []).flatMap((each, slot) =>
    each.address === after?.[slot]?.address ? [] : [`${slot}`]
  );
  assert(changed.length < 50, `${changed.length} of 251`);
  const touched = [...step?.text.matchAll(/10\.96\.0\.1 \. 80 \. (\d+)/g) ?? []]
    .map(([, slot = ""]) => slot);
  assertEquals(new Set(touched), new Set(changed));
  assertEquals(step?.operations, 2 * changed.length);
});

Deno.test("one change among 2,000 Services is a script of that Service alone", async () => {
  const services = range(2_000).flatMap((i) => [
    service(`s${i}`, { clusterIP: `172.16.${i >> 8}.${i & 255}` }),
    slice(`s${i}-1`, `s${i}`, [2 * i, 2 * i + 1]),
  ]);
  const [full, step] = await stepsOf(services, [
    ...services.filter((each) => each.metadata.name !== "s1000-1"),
    slice("s1000-1", "s1000", [2_000, 1_000_000]),
  ]);
  assert((full?.operations ?? 0) > 6_000);
  assertEquals(step?.operations, 2);
  const keys = new Set(step?.text.match(/172\.16\.\d+\.\d+/g));
  assertEquals([...keys], ["172.16.3.232"]);
});

Deno.test("a change that changes no rule is an empty script, which nft is not started for", async () => {
  const fake = new FakeNft();
  const dataplane = new NftablesDataplane(fake.nft);
  const pipeline = new Pipeline();
  await pipeline.apply(dataplane, [service("web")]);
  const script = pipeline.step(dataplane, [
    { ...service("web"), metadata: { name: "web", labels: { a: "b" } } },
  ]);
  assertEquals([script.text, script.operations], ["", 0]);
  const before = fake.scripts.length;
  await dataplane.apply(script);
  assertEquals(fake.scripts.length, before);
});

const NODE = node({ addresses: ["192.0.2.10"] });
const CIDR = serviceCIDR({ cidrs: ["10.96.0.0/16"] });

Deno.test("a change of the node's address needs a full script, one of ServiceCIDRs does not", () => {
  const dataplane = new NftablesDataplane(new Nft(SILENT_RUNNER));
  const pipeline = new Pipeline();
  pipeline.load([]);
  const changed = (objects: readonly ApiObject[]) => {
    const { change } = pipeline.load(objects);
    return atOnce(dataplane.changing(change, pipeline.desired));
  };
  assertEquals(changed([NODE]), undefined);
  assertEquals(changed([NODE, CIDR])?.operations, 1);
});

/** A dataplane with two Services of two endpoints in the kernel, and the step to one of them. */
async function withTwo() {
  const fake = new FakeNft();
  const dataplane = new NftablesDataplane(fake.nft);
  const pipeline = new Pipeline();
  const one = [service("a"), slice("a-1", "a", [1, 2])];
  const two = [service("b", { clusterIP: "10.96.0.2" }), slice("b-1", "b", [3, 4])];
  await pipeline.apply(dataplane, [...one, ...two]);
  const step = (objects: readonly ApiObject[]) => pipeline.step(dataplane, objects);
  return { fake, dataplane, pipeline, one, two, step };
}

const SHARED = "delete chain inet signpost pick-endpoints4-tcp-2";

Deno.test("a script that the kernel refused counts for nothing", async () => {
  const { fake, dataplane, pipeline, one, step } = await withTwo();
  fake.refuse = true;
  const elements = new Map(dataplane.elements);
  const counts = [...dataplane.ruleCounts];
  await assertRejects(() => dataplane.apply(step(one)), ApplyError);
  assertEquals(dataplane.elements, elements);
  assertEquals([...dataplane.ruleCounts], counts);
  fake.refuse = false;
  await dataplane.apply(dataplane.full(pipeline.desired));
  assertEquals(step([]).text.includes(SHARED), true);
});

Deno.test("commands of a prologue stand before a full script alone", async () => {
  const fake = new FakeNft();
  const prologue = () => Promise.resolve("delete table ip kube-proxy\n");
  const dataplane = new NftablesDataplane(fake.nft, { prologue });
  const pipeline = new Pipeline();
  await pipeline.apply(dataplane, []);
  const partial = pipeline.step(dataplane, [service("web")]);
  await dataplane.apply(partial);
  const [first = "", , ...others] = fake.scripts;
  assertMatch(first, /^delete table ip kube-proxy\nadd table inet signpost\n/);
  assertEquals(others, [partial.text]);
});

Deno.test("base chains of a full script have late copies until the next transaction", async () => {
  const fake = new FakeNft();
  const pipeline = new Pipeline();
  await pipeline.apply(new NftablesDataplane(fake.nft), []);
  const [replacement = "", deletion = "", ...others] = fake.scripts;
  const hooks = new Map(
    [...replacement.matchAll(/chain (\S+) \{\n +type (.*) priority (-?\d+);\n([^}]*)/g)]
      .map(([, name = "", hook, priority, rules]) => [name, { hook, priority, rules }]),
  );
  const late = [...hooks.keys()].filter((name) => name.startsWith("late-"));
  assertEquals(late.length, hooks.size / 2);
  for (const name of late) {
    const of = hooks.get(name.replace("late-", ""));
    assertEquals(hooks.get(name), { ...of, priority: String(Number(of?.priority) + 3) });
  }
  assertEquals(
    deletion,
    ["flush", "delete"].map((verb) =>
      late.map((name) => `${verb} chain inet signpost ${name}\n`).join("")
    ).join(""),
  );
  assertEquals(others, []);
});

Deno.test("chains are in the kernel before a transaction leads packets to them", async () => {
  const { fake, dataplane, one, two, step } = await withTwo();
  const three = slice("a-1", "a", [1, 2, 3]);
  const script = step([one[0] ?? three, three, ...two]);
  fake.scripts.length = 0;
  await dataplane.apply(script);
  const [preparation = "", change = ""] = fake.scripts;
  assertEquals(fake.scripts, script.transactions);
  assertEquals(fake.scripts.join(""), script.text);
  assertMatch(preparation, /add rule inet signpost pick-endpoints4-tcp-3 dnat/);
  assertEquals(/element/.test(preparation), false);
  assertMatch(change, /add element inet signpost services4 \{\n.*: goto pick-endpoints4-tcp-3\n/);
  assertEquals(/add chain|add rule/.test(change), false);
  // Where every chain is there already, one transaction does.
  fake.scripts.length = 0;
  await dataplane.apply(step([...one, ...two]));
  assertEquals(fake.scripts.length, 1);
});

const TURNS = {
  metadata: { name: "web", annotations: { "signpost.dev/scheduler": "round-robin" } },
};
const LOCAL = {
  type: "NodePort",
  externalTrafficPolicy: "Local",
  ports: [{ port: 80, nodePort: 30080 }],
};
const CLUSTER = { ...LOCAL, externalTrafficPolicy: "Cluster" };
const MOVES: readonly (readonly [name: string, from: ApiObject, to: ApiObject])[] = [
  ["from random to round-robin", service("web"), { ...service("web"), ...TURNS }],
  ["from round-robin to random", { ...service("web"), ...TURNS }, service("web")],
  ["to session affinity", service("web"), service("web", { sessionAffinity: "ClientIP" })],
  ["from policy Local to Cluster", service("web", LOCAL), service("web", CLUSTER)],
];

for (const [name, from, to] of MOVES) {
  Deno.test(`a frontend that moves ${name} keeps its slots until the next transaction`, async () => {
    const fake = new FakeNft();
    const dataplane = new NftablesDataplane(fake.nft);
    const pipeline = new Pipeline();
    const endpoints = slice("web-1", "web", [1, 2]);
    const local = { ...endpoints, endpoints: [{ addresses: ["10.0.0.1"], nodeName: NODE_NAME }] };
    await pipeline.apply(dataplane, [from, local]);
    const script = pipeline.step(dataplane, [to, local]);
    fake.scripts.length = 0;
    await dataplane.apply(script);
    const cleanup = fake.scripts.pop() ?? "";
    const change = fake.scripts.pop() ?? "";
    assertMatch(change, /add element inet signpost (services4|nodeports4) /);
    assertEquals(
      /delete (element inet signpost \S*endpoints|chain|map)/.test(change),
      false,
      change,
    );
    assertMatch(cleanup, /^delete element inet signpost \S*endpoints-tcp4\S* /m);
    assertMatch(cleanup, /^delete chain inet signpost pick-/m);
    assertEquals(/^(add|flush map) /m.test(cleanup), false, cleanup);
    const chains = (verb: string) =>
      cleanup.split("\n").filter((line) => line.startsWith(`${verb} chain`));
    assertEquals(chains("flush").map((line) => line.replace("flush", "delete")), chains("delete"));
    await dataplane.apply(pipeline.step(dataplane, []));
    assertEquals([...dataplane.elements], []);
  });
}

Deno.test("the applied state stays if the kernel refuses the third transaction", async () => {
  const fake = new FakeNft();
  const dataplane = new NftablesDataplane(fake.nft);
  const pipeline = new Pipeline();
  const endpoints = slice("web-1", "web", [1, 2]);
  await pipeline.apply(dataplane, [service("web"), endpoints]);
  const known = [...dataplane.elements];
  const script = pipeline.step(dataplane, [{ ...service("web"), ...TURNS }, endpoints]);
  fake.refuses = (text) => text === script.transactions.at(-1);
  await assertRejects(() => dataplane.apply(script), ApplyError);
  assertEquals([...dataplane.elements], known);
  await dataplane.apply(dataplane.full(pipeline.desired));
  const fresh = new NftablesDataplane(new Nft(SILENT_RUNNER));
  await fresh.apply(fresh.full(pipeline.desired));
  assertEquals(dataplane.elements, fresh.elements);
});

Deno.test("a frontend that goes leaves nothing to a third transaction", async () => {
  const { dataplane, one, step } = await withTwo();
  assertEquals(step(one).transactions.length, 1);
  const [first] = one;
  assertEquals(first === undefined ? [] : step([first]).transactions.length, 1);
  await dataplane.apply(step([]));
});

/** Words that a script may hold; whatever else comes from objects is a name in a comment. */
const HARMLESS = /^[a-zA-Z0-9 \n\t{}:;,.@|&^=!*\/"_\[\]-]*$/;

Deno.test("no script holds anything but words, names and addresses", () => {
  fc.assert(fc.property(cluster, cluster, (a, b) => {
    const pipeline = new Pipeline();
    const dataplane = new NftablesDataplane(new Nft(SILENT_RUNNER));
    pipeline.load(a);
    const full = dataplane.full(pipeline.desired).text;
    const { change } = pipeline.load(b);
    const partial = atOnce(dataplane.changing(change, pipeline.desired))?.text ?? "";
    for (const text of [full, partial]) {
      assert(HARMLESS.test(text), text);
      for (const [, comment = ""] of text.matchAll(/comment "([^"]*)"/g)) {
        assert(/^[a-z0-9.:\/-]+$/.test(comment) && comment.length < 128, comment);
      }
    }
  }));
});

Deno.test("the longest names that objects can have make names and comments that nft takes", async () => {
  const [namespace = "", name = "", port = ""] = ["n", "s", "p"].map((letter) =>
    letter.repeat(253)
  );
  const objects = [
    buildService({
      namespace,
      name,
      clusterIP: "fd00::1",
      sessionAffinity: "ClientIP",
      ports: [{ name: port, port: 80 }, { name: "other", port: 81 }],
    }),
    buildSlice({
      namespace,
      service: name,
      name,
      ports: [{ name: port, port: 65535 }],
      endpoints: ["1", "2"].map((last) => `fd00:aaaa:bbbb:cccc:dddd:eeee:ffff:${last}`),
    }),
  ];
  await using kernel = await Kernel.create();
  const dataplane = new NftablesDataplane(kernel.nft);
  const pipeline = new Pipeline();
  await pipeline.apply(dataplane, objects);
  const counts = await kernel.ruleCounts();
  assertEquals([...counts.keys()].filter((each) => each.startsWith("affinity6-")).length, 3);
  assertEquals(new Map(dataplane.ruleCounts), counts);
});

Deno.test("no script reads the elements of another program's table", async () => {
  await using kernel = await Kernel.create();
  const ranges = Array.from({ length: 32_000 }, (_, i) => `10.${i >> 7}.${(i & 127) * 2}.0/24`);
  await kernel.script(
    "table inet other {\n set ranges { typeof ip saddr; flags interval; }\n}\n" +
      `add element inet other ranges { ${ranges.join(", ")} }\n`,
  );
  // nft takes 54 MB for these elements.
  const run = kernel.runner.run;
  const limited: typeof run = (argv, stdin) => run(["prlimit", "--as=40000000", ...argv], stdin);
  const nft = new Nft({ run: limited }, new Marks(4096));
  await assertRejects(() => nft.apply("delete element inet other ranges { 10.0.0.0/24 }\n"));
  const dataplane = new NftablesDataplane(nft);
  const pipeline = new Pipeline();
  const sticky = { sessionAffinity: "ClientIP" };
  const objects = (numbers: readonly number[]) => [
    service("web", sticky),
    service("api", { clusterIP: "10.96.0.2" }),
    slice("web-1", "web", numbers),
    slice("api-1", "api", numbers),
  ];
  await pipeline.apply(dataplane, objects([1, 2]));
  for (const numbers of [[1, 2, 3], [3], []]) {
    await dataplane.apply(pipeline.step(dataplane, objects(numbers)));
  }
  assertEquals(dataplane.elements.get("endpoints-tcp4"), undefined);
});

/**
 * Repairs by parts in a real kernel: what another program did is undone, and nothing else touched.
 */
import { assert, assertEquals } from "@std/assert";
import {
  NftablesDataplane,
  type NftablesOptions,
} from "../../../lib/backend/nftables/dataplane.ts";
import { repairScript } from "../../../lib/backend/nftables/repair.ts";
import { followMonitor } from "../../../lib/backend/nftables/watch.ts";
import { Touched, type Transaction } from "../../../lib/backend/nftables/transactions.ts";
import { comparing } from "../../../lib/backend/nftables/compare.ts";
import { desiredContents } from "../../../lib/backend/nftables/read.ts";
import { SystemClock } from "../../../lib/system/clock.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { eventually } from "../../support/eventually.ts";
import { run } from "../../support/command.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";
import { SERVICE, STICKY, TURNS } from "./web.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

/** A table that was written once. */
class Table implements AsyncDisposable {
  readonly #pipeline = new Pipeline();
  readonly #dataplane: NftablesDataplane;
  readonly #touched = new Touched();
  /** The listings that repairs asked for. */
  readonly listings: string[] = [];
  readonly #stop = new AbortController();
  #following: Promise<void> = Promise.resolve();
  #generations = 0;

  private constructor(readonly kernel: Kernel, options: NftablesOptions) {
    this.#dataplane = new NftablesDataplane(kernel.nft, options);
  }

  static async create(
    objects: readonly ApiObject[],
    options: NftablesOptions = {},
  ): Promise<Table> {
    const table = new Table(await Kernel.create(), options);
    table.#pipeline.load(objects);
    await table.replace();
    return table;
  }

  async replace(): Promise<void> {
    await this.#dataplane.apply(this.#dataplane.full(this.#pipeline.desired));
  }

  /** Makes these the only objects, by a partial script. */
  async load(objects: readonly ApiObject[]): Promise<void> {
    await this.#dataplane.apply(this.#pipeline.step(this.#dataplane, objects));
  }

  /** Has a monitor tell which elements are touched. */
  async follow(): Promise<void> {
    const options = {
      ...this.kernel,
      clock: new SystemClock(),
      logger: new MemoryLogger(),
      onTransaction: (transaction: Transaction) => {
        this.#generations++;
        this.#touched.add(transaction);
      },
    };
    this.#following = followMonitor(options, this.#stop.signal);
    await eventually("the monitor tells", async () => {
      await this.kernel.script("add table inet other\ndelete table inet other");
      return this.#generations > 0;
    });
  }

  /** Has another program do something, and waits until the monitor, if there is one, has told of it. */
  async damage(script: string): Promise<void> {
    const marker = this.#generations;
    await this.kernel.script(script);
    if (marker > 0) await eventually("the monitor has told", () => this.#generations > marker);
  }

  /** Forgets what the monitor has told of the repair. */
  forget(): void {
    this.#touched.take();
    this.listings.length = 0;
  }

  /** Repairs the table by parts. @returns what was written; `undefined`: parts do not suffice */
  async repair(): Promise<{ readonly operations: number; readonly bytes: number } | undefined> {
    const { nft } = this.kernel;
    const options = {
      nft: {
        listTable: () => {
          this.listings.push("table");
          return nft.listTable();
        },
        listStructure: () => {
          this.listings.push("structure");
          return nft.listStructure();
        },
      },
      dataplane: this.#dataplane,
      touched: this.#touched,
      clock: new SystemClock(),
    };
    const script = await repairScript(options, this.#pipeline.desired);
    if (script) await this.#dataplane.apply(script);
    return script;
  }

  /** How the kernel differs from what it should hold. */
  async differences(): Promise<string[]> {
    const held = await this.kernel.contents();
    if (!held) return ["no table"];
    return atOnce(comparing(desiredContents(this.#pipeline.desired), held))
      .map((each) => JSON.stringify(each));
  }

  /** Chains, rules and sets with the numbers that the kernel gave them, by chain or set. */
  async handles(): Promise<Map<string, string>> {
    const command = ["nft", "-a", "-t", "list", "table", "inet", "signpost"];
    const listing = await run([...this.kernel.prefix, ...command]);
    const blocks = listing.split(/^(?=\t\w)/m).map((block) => {
      const [, name = "table"] = /^\t(?:set|map|chain) (\S+)/.exec(block) ?? [];
      return [name, [...block.matchAll(/# handle \d+/g)].join()] as const;
    });
    return new Map(blocks);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#following;
    await this.kernel[Symbol.asyncDispose]();
  }
}

const T = "inet signpost";
const VIP = "10.96.0.1 . tcp . 80";
/** The map of the Service that takes turns. */
const TURNS_MAP = "endpoints-tcp4-turns-53";

/** Scripts of another program, the operations of each repair, and the objects whose handles may change. */
const DAMAGES: readonly (readonly [script: string, operations: number, touched: string])[] = [
  [`delete element ${T} services4 { ${VIP} }`, 1, ""],
  [`add element ${T} cluster-ips4 { 10.96.0.9 }`, 1, ""],
  [`delete element ${T} services4 { ${VIP} }; add element ${T} services4 { ${VIP} : drop }`, 2, ""],
  [`flush map ${T} endpoints-tcp4`, 2, ""],
  [`flush map ${T} ${TURNS_MAP}`, 2, ""],
  [
    `delete element ${T} ${TURNS_MAP} { 10.96.0.3 . 80 . 1 }; ` +
    `add element ${T} ${TURNS_MAP} { 10.96.0.3 . 80 . 1 : 192.0.2.1 . 80 }`,
    2,
    "",
  ],
  [`flush chain ${T} cluster-ips`, 1, "cluster-ips"],
  [`flush chain ${T} nat-prerouting`, 1, "nat-prerouting"],
  [`insert rule ${T} services drop`, 1, "services"],
  [`add rule ${T} filter-input counter accept`, 1, "filter-input"],
  [
    `delete element ${T} services4 { ${VIP} }; delete chain ${T} pick-endpoints4-tcp-2`,
    2,
    "pick-endpoints4-tcp-2",
  ],
  [`flush chain ${T} cluster-ips; delete set ${T} cluster-ips4`, 5, "cluster-ips cluster-ips4"],
  [`add set ${T} evil { type ipv4_addr; }`, 1, ""],
  [
    `flush chain ${T} cluster-ips; delete set ${T} cluster-ips4; ` +
    `add set ${T} cluster-ips4 { typeof ip daddr; }`,
    4,
    "cluster-ips cluster-ips4",
  ],
  [
    `add chain ${T} evil; add chain ${T} evil2; add rule ${T} evil jump evil2; ` +
    `add rule ${T} evil2 drop; insert rule ${T} services goto evil`,
    3,
    "services",
  ],
  [`add chain ${T} evil { type filter hook input priority 5; policy drop; }`, 1, ""],
  [
    `add chain ${T} evil; add map ${T} evils { type ipv4_addr : verdict; }; ` +
    `add element ${T} evils { 192.0.2.1 : goto evil }`,
    2,
    "",
  ],
  [
    `add chain ${T} evil; delete element ${T} services4 { ${VIP} }; ` +
    `add element ${T} services4 { ${VIP} : goto evil }`,
    3,
    "",
  ],
];

for (const how of ["looks", "the monitor"]) {
  Deno.test(`a repair undoes by parts what another program did: reported by ${how}`, async (test) => {
    await using table = await Table.create([...SERVICE, ...STICKY, ...TURNS]);
    const isFollowed = how === "the monitor";
    if (isFollowed) await table.follow();
    const [, set = ""] = /set (affinity4-\S+)/.exec(await table.kernel.nft.listTable()) ?? [];
    await table.kernel.script(`add element ${T} ${set} { 192.0.2.1 timeout 3h expires 2h }`);
    for (const [damage, operations, touched] of DAMAGES) {
      await test.step(damage, async () => {
        const before = await table.handles();
        table.forget();
        await table.damage(damage);
        assert((await table.differences()).length > 0, "the damage is seen");
        assertEquals((await table.repair())?.operations, operations);
        assertEquals(await table.differences(), []);
        // Of elements that went with their set, the monitor does not tell.
        const isTold = isFollowed && !/add (?:set|map) /.test(damage);
        const isElementsOnly = !/(?:chain|set|rule) /.test(damage.replaceAll("inet", ""));
        assertEquals(
          table.listings,
          isTold && isElementsOnly ? [] : [isTold ? "structure" : "table"],
        );
        const after = await table.handles();
        for (const name of touched.split(" ")) {
          for (const each of [before, after]) each.delete(name);
        }
        assertEquals(after, before);
      });
    }
    const clients = await table.kernel.nft.listSets();
    assert(/192\.0\.2\.1 timeout 3h expires 1h5/.test(clients), "the client and its time");
    await table.load(STICKY);
    assertEquals(await table.differences(), [], "later steps go on from there");
    await table.load([...SERVICE, ...STICKY, ...TURNS]);
    assertEquals(await table.differences(), []);
  });
}

Deno.test("a table that is gone needs a full sync", async () => {
  await using table = await Table.create(SERVICE);
  const hook = "{ type nat hook output priority -101 ; }";
  const damages = [
    `delete table ${T}`,
    `delete chain ${T} nat-output`,
    `delete chain ${T} nat-output\nadd chain ${T} nat-output\nadd rule ${T} nat-output jump services`,
    `add chain ${T} nat-output ${hook.replace(" ; ", "; policy drop; ")}`,
    `add counter ${T} hits`,
    `add table ${T} { flags dormant; }`,
  ];
  const outcomes: unknown[] = [];
  for (const damage of damages) {
    await table.kernel.script(damage);
    outcomes.push((await table.repair())?.operations);
    if (outcomes.at(-1) !== undefined) assertEquals(await table.differences(), [], damage);
    await table.replace();
    assertEquals(await table.differences(), [], damage);
  }
  assertEquals(outcomes, [undefined, 1, 1, 1, undefined, undefined]);
});

Deno.test("where nothing differs, nothing is written", async () => {
  await using table = await Table.create(SERVICE);
  assertEquals(await table.repair().then((script) => script?.bytes), 0);
});

Deno.test("a repair leaves deletions that wait to the steps that make them", async () => {
  const many = Array.from({ length: 30 }, (_, i) => ({ addresses: [`10.244.1.${i}`] }));
  const grown = SERVICE.map((each) =>
    each.kind === "EndpointSlice" ? { ...each, endpoints: many } : each
  );
  await using table = await Table.create(grown, { share: 10 });
  await table.load(SERVICE);
  await table.damage(`add chain ${T} foreign`);
  assert(await table.repair());
  for (let step = 0; step < 6; step++) await table.load(SERVICE);
  assertEquals(await table.differences(), []);
});

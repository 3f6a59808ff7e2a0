/**
 * Measures the cost of counters on frontends: new connections with and without them, and the kernel's memory.
 *
 * @module
 */
import { run } from "../../tests/support/command.ts";
import type { Libc } from "../libc.ts";
import type { Round } from "../packet_client.ts";
import { PacketNetwork } from "../packet_network.ts";
import type { StageOptions } from "../stage.ts";
import { median } from "../statistics.ts";
import { mediansOf, writeOwnTable } from "./packets.ts";

/** One of the two tables. */
export interface CounterCost extends Round {
  /** Bytes of the kernel for the table: slabs that cannot be reclaimed, and memory by processor. */
  readonly slab: number;
  readonly percpu: number;
  /** Seconds for one listing of the frontends. */
  readonly listing: number;
}

/** With so many Services in the table. */
export interface CounterCosts {
  readonly services: number;
  readonly counted: CounterCost;
  readonly uncounted: CounterCost;
}

/** Measures both tables in turns. */
export async function measureCounters(
  libc: Libc,
  options: StageOptions & { readonly rounds: number; readonly milliseconds: number },
): Promise<CounterCosts> {
  const { services, endpoints, rounds, milliseconds } = options;
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    await using counted = await Table.create(libc, { services, endpoints, folder, counts: true });
    await using uncounted = await Table.create(libc, {
      services,
      endpoints,
      folder,
      counts: false,
    });
    const medians = await mediansOf(rounds, {
      counted: () => counted.network.connect("vip", milliseconds),
      uncounted: () => uncounted.network.connect("vip", milliseconds),
    });
    return {
      services,
      counted: { ...medians.counted, ...await counted.cost(rounds) },
      uncounted: { ...medians.uncounted, ...await uncounted.cost(rounds) },
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A node with one of the tables. */
class Table implements AsyncDisposable {
  private constructor(
    readonly network: PacketNetwork,
    private readonly memory: Pick<CounterCost, "slab" | "percpu">,
  ) {}

  static async create(
    libc: Libc,
    { folder, counts, ...options }: StageOptions & {
      readonly folder: string;
      readonly counts: boolean;
    },
  ): Promise<Table> {
    const flags = [`--service-metrics=${counts}`];
    const path = await writeOwnTable(libc, `${folder}/${counts}.nft`, { ...options, flags });
    const network = await PacketNetwork.create(options.endpoints);
    const before = await kernelMemory();
    await network.load(path);
    const after = await kernelMemory();
    return new Table(network, {
      slab: after.slab - before.slab,
      percpu: after.percpu - before.percpu,
    });
  }

  async cost(rounds: number): Promise<Pick<CounterCost, "slab" | "percpu" | "listing">> {
    const times: number[] = [];
    for (let i = 0; i < rounds; i++) {
      const start = performance.now();
      await this.network.inNode(["nft", "list", "map", "inet", "signpost", "services4"]);
      times.push((performance.now() - start) / 1000);
    }
    return { ...this.memory, listing: median(times) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.network[Symbol.asyncDispose]();
  }
}

/** Bytes, from `/proc/meminfo`. */
async function kernelMemory(): Promise<Pick<CounterCost, "slab" | "percpu">> {
  const text = await run(["cat", "/proc/meminfo"]);
  const field = (name: string) =>
    1024 * Number(new RegExp(`^${name}: +(\\d+) kB`, "m").exec(text)?.[1] ?? NaN);
  return { slab: field("SUnreclaim"), percpu: field("Percpu") };
}

/**
 * The packet path: new connections through a VIP, beside a chain-per-service table and beside
 * connections that no rule touches.
 *
 * @module
 */
import { chainPerService } from "../chains.ts";
import { initialAddresses } from "../cluster.ts";
import { printOnce } from "../daemon.ts";
import type { Libc } from "../libc.ts";
import type { Round } from "../packet_client.ts";
import { PacketNetwork } from "../packet_network.ts";
import { Stage, type StageOptions } from "../stage.ts";
import { median } from "../statistics.ts";

/** Medians over some rounds, taken in turns. */
export interface PacketPath {
  readonly services: number;
  readonly signpost: Round;
  readonly chainPerService: Round;
  /** Past all rules, in the namespace of signpost's rules. */
  readonly direct: Round;
}

/** Measures with so many Services in the tables. */
export async function measurePackets(
  libc: Libc,
  options: StageOptions & { readonly rounds: number; readonly milliseconds: number },
): Promise<PacketPath> {
  const { services, endpoints, rounds, milliseconds } = options;
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    await using own = await PacketNetwork.create(endpoints);
    await own.load(await writeOwnTable(libc, `${folder}/signpost.nft`, { services, endpoints }));
    await using chains = await PacketNetwork.create(endpoints);
    await chains.load(await writeChains(folder, { services, endpoints }));
    const measured = await mediansOf(rounds, {
      signpost: () => own.connect("vip", milliseconds),
      chainPerService: () => chains.connect("vip", milliseconds),
      direct: () => own.connect("endpoint", milliseconds),
    });
    return { services, ...measured };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Measures several things in turns; the medians of each one's rounds. */
export async function mediansOf<K extends string>(
  rounds: number,
  measure: Readonly<Record<K, () => Promise<Round>>>,
): Promise<Record<K, Round>> {
  const things = Object.entries<() => Promise<Round>>(measure).map(([name, once]) => ({
    name,
    once,
    measured: [] as Round[],
  }));
  for (let i = 0; i < rounds; i++) {
    for (const { once, measured } of things) measured.push(await once());
  }
  const medians = things.map(({ name, measured }) => [name, summarise(measured)] as const);
  return Object.fromEntries(medians) as Record<K, Round>;
}

function summarise(rounds: readonly Round[]): Round {
  return {
    perSecond: median(rounds.map(({ perSecond }) => perSecond)),
    first: median(rounds.map(({ first }) => first)),
    p50: median(rounds.map(({ p50 }) => p50)),
    p99: median(rounds.map(({ p99 }) => p99)),
  };
}

/** Writes what `--once` prints into a file, and gives its path. */
export async function writeOwnTable(
  libc: Libc,
  path: string,
  { flags = [], ...options }: StageOptions & { readonly flags?: readonly string[] },
): Promise<string> {
  await using stage = await Stage.create(libc, options);
  const { namespace, api: { kubeconfig } } = stage;
  await Deno.writeTextFile(path, await printOnce({ namespace, kubeconfig, flags }));
  return path;
}

async function writeChains(folder: string, options: StageOptions): Promise<string> {
  const path = `${folder}/chains.nft`;
  const pieces = chainPerService(
    options.services,
    (service) => initialAddresses(service, options.endpoints),
  );
  await Deno.writeTextFile(path, ReadableStream.from(pieces));
  return path;
}

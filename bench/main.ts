/**
 * `deno task bench`: measures signpost on this machine, in namespaces of its own.
 *
 * Prints tables, and writes `bench/results.json`, `docs/data/bench.svg` and the tables of `bench/README.md`.
 * Needs root.
 *
 * @module
 */
import { messageOf } from "../lib/model/values/errors.ts";
import { Libc } from "./libc.ts";
import { hostile } from "./hostile.ts";
import { HELP, type Options, type Part, readOptions } from "./options.ts";
import { type CounterCosts, measureCounters } from "./parts/counters.ts";
import { measureFirstRequest } from "./parts/first_request.ts";
import { type IptablesResult, measureIptables } from "./parts/iptables.ts";
import { measureLocalhost } from "./parts/localhost.ts";
import { measurePackets, type PacketPath } from "./parts/packets.ts";
import { measureWideService } from "./parts/wide_service.ts";
import { measurePeers, renderComparison, renderPeerPage } from "./peer.ts";
import { renderPlot } from "./plot.ts";
import { renderPerformancePage } from "./page.ts";
import { describeMachine, describeSitting, makeProgram } from "./program.ts";
import { print, progress } from "./report.ts";
import type { Results, SizeResult } from "./results.ts";
import { scale } from "./scale/scale.ts";
import { measureSize } from "./size.ts";
import { Stage } from "./stage.ts";
import { renderResults } from "./tables.ts";

const PEER_JSON = new URL("peer.json", import.meta.url).pathname;
const PEER_PAGE = new URL("../docs/performance.md", import.meta.url).pathname;
const README = new URL("../README.md", import.meta.url).pathname;
const FIRST_REQUEST_RUNS = 9;
/** A round meets one of two placements on the processors, and the median wants many of them. */
const PACKET_MILLISECONDS = 500;
const IPTABLES_RUNS = 3;

/** Measures one thing after the other; what fails is told, and the others go on. */
class Measuring {
  /** The parts of which something was measured. */
  readonly done = new Set<Part>();

  constructor(private readonly options: Options) {}

  /** @returns what was measured; empty where these parts are not wanted or fail */
  async of<T>(
    { parts, what }: { readonly parts: readonly Part[]; readonly what: string },
    body: () => Promise<T>,
  ): Promise<T[]> {
    const wanted = parts.filter((part) => this.options.parts.has(part));
    if (wanted.length === 0) return [];
    progress(what);
    try {
      const measured = await body();
      for (const part of wanted) this.done.add(part);
      return [measured];
    } catch (error) {
      progress(`${what} failed: ${messageOf(error)}`);
      Deno.exitCode = 1;
      return [];
    }
  }
}

/** The parts that are measured in a cluster of each size. */
const SIZED: readonly Part[] = ["start", "changes", "work", "cpu", "pause"];

async function measure(options: Options, program: string): Promise<Results> {
  const { endpoints, runs } = options;
  const libc = new Libc();
  const measuring = new Measuring(options);
  const sitting = await describeSitting();
  const machine = await describeMachine();
  const sizes: SizeResult[] = [];
  for (const services of options.sizes) {
    const size = { parts: SIZED, what: `${services} services` };
    sizes.push(...await measuring.of(size, () => measureSize(libc, services, options)));
  }
  const [packets, counters]: [PacketPath[], CounterCosts[]] = [[], []];
  for (const services of options.packetSizes) {
    const rounds = { rounds: options.packetRounds, milliseconds: PACKET_MILLISECONDS };
    const path = { services, endpoints, ...rounds };
    packets.push(
      ...await measuring.of(
        { parts: ["packets"], what: `packet path, ${services} services` },
        () => measurePackets(libc, path),
      ),
    );
    counters.push(
      ...await measuring.of(
        { parts: ["counters"], what: `counters, ${services} services` },
        () => measureCounters(libc, path),
      ),
    );
  }
  const iptables: IptablesResult[] = [];
  for (const [i, services] of options.iptablesSizes.entries()) {
    // iptables-nft checks every chain again at every commit: it is measured with the fewest Services.
    for (const backend of i === 0 ? ["nft", "legacy"] as const : ["legacy"] as const) {
      const changes = options.iptablesChanges;
      const each = { services, endpoints, backend, changes, runs: Math.min(runs, IPTABLES_RUNS) };
      iptables.push(
        ...await measuring.of(
          { parts: ["iptables"], what: `iptables-${backend}, ${services} services` },
          () => measureIptables(libc, each),
        ),
      );
    }
  }
  const [firstRequest] = await measuring.of(
    { parts: ["request"], what: "first request" },
    () => firstRequestOf(libc, options),
  );
  const [wideService] = await measuring.of(
    { parts: ["wide"], what: "one Service with many endpoints" },
    () => measureWideService(libc, options.wideEndpoints),
  );
  const [localhost] = await measuring.of(
    { parts: ["localhost"], what: "node ports on loopback" },
    () => measureLocalhost(options.localhost),
  );
  return {
    date: new Date().toISOString().slice(0, 10),
    machine,
    program,
    measured: Object.fromEntries([...measuring.done].map((part) => [part, sitting])),
    sizes,
    ...(packets.length > 0 && { packets }),
    ...(counters.length > 0 && { counters }),
    ...(iptables.length > 0 && { iptables }),
    ...(firstRequest !== undefined && { firstRequest }),
    ...(wideService && { wideService }),
    ...(localhost && { localhost }),
  };
}

async function firstRequestOf(libc: Libc, { runs }: Options): Promise<number> {
  await using stage = await Stage.create(libc, { services: 1, endpoints: 1 });
  return await measureFirstRequest(stage, Math.min(FIRST_REQUEST_RUNS, 2 * runs));
}

/** Parts that were not run keep what the file has of them. */
async function mergeInto(path: string, results: Results): Promise<Results> {
  let old: Partial<Results> = {};
  try {
    old = JSON.parse(await Deno.readTextFile(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const known = new Map((old.sizes ?? []).map((size) => [size.services, size]));
  for (const size of results.sizes) {
    known.set(size.services, { ...known.get(size.services), ...size });
  }
  const sizes = [...known.values()].sort((a, b) => a.services - b.services);
  return { ...old, ...results, measured: { ...old.measured, ...results.measured }, sizes };
}

async function bench(options: Options): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    const program = await makeProgram(folder);
    progress(`measuring ${program}`);
    if (options.peer !== undefined) {
      await benchPeers({ ...options, peer: options.peer });
      return;
    }
    const results = await measure(options, program);
    print(renderResults(results));
    if (options.output) await write(results, options.output);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function benchPeers(options: Options & { readonly peer: string }): Promise<void> {
  const results = await measurePeers(new Libc(), { ...options, sizes: options.peerSizes });
  const page = renderPeerPage(await Deno.readTextFile(PEER_PAGE), results);
  print(page);
  if (!options.output) return;
  await Deno.writeTextFile(PEER_JSON, `${JSON.stringify(results, undefined, 2)}\n`);
  await Deno.writeTextFile(PEER_PAGE, page);
  const readme = await Deno.readTextFile(README);
  await Deno.writeTextFile(README, renderComparison(readme, results));
  progress(`wrote ${PEER_JSON}, ${PEER_PAGE} and ${README}`);
}

async function write(
  results: Results,
  { json, plot, page }: NonNullable<Options["output"]>,
): Promise<void> {
  const all = await mergeInto(json, results);
  await Deno.writeTextFile(json, `${JSON.stringify(all, undefined, 2)}\n`);
  await Deno.writeTextFile(plot, renderPlot(all.sizes));
  await Deno.writeTextFile(page, renderPerformancePage(await Deno.readTextFile(page), all));
  progress(`wrote ${json}, ${plot} and ${page}`);
}

if (import.meta.main) {
  const [first, ...rest] = Deno.args;
  if (first === "scale") await scale(rest);
  else if (first === "--hostile") await hostile(Deno.args);
  else {
    const options = readOptions(Deno.args);
    if (options.help) print(HELP);
    else await bench(options);
  }
  Deno.exit();
}

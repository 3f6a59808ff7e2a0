/**
 * `deno task bench`: measures signpost on this machine, in namespaces of its own.
 *
 * Prints tables, and writes `bench/results.json` and `docs/bench.svg`. Needs root.
 *
 * @module
 */
import { Libc } from "./libc.ts";
import { HELP, type Options, readOptions } from "./options.ts";
import { measureCounters } from "./parts/counters.ts";
import { measureFirstRequest } from "./parts/first_request.ts";
import { type IptablesResult, measureIptables } from "./parts/iptables.ts";
import { measurePackets } from "./parts/packets.ts";
import { measureWideService } from "./parts/wide_service.ts";
import { renderPlot } from "./plot.ts";
import { describeMachine, makeProgram } from "./program.ts";
import { print, progress } from "./report.ts";
import type { Results, SizeResult } from "./results.ts";
import { scale } from "./scale/scale.ts";
import { measureSize } from "./size.ts";
import { Stage } from "./stage.ts";
import { renderResults } from "./tables.ts";

const FIRST_REQUEST_RUNS = 9;
/** A round meets one of two placements on the processors, and the median wants many of them. */
const PACKET_MILLISECONDS = 500;
const IPTABLES_RUNS = 3;

async function measure(options: Options, program: string): Promise<Results> {
  const { parts, endpoints } = options;
  const libc = new Libc();
  const sizes: SizeResult[] = [];
  for (const services of needsSizes(options) ? options.sizes : []) {
    progress(`${services} services`);
    sizes.push(await measureSize(libc, services, options));
  }
  const packets = [];
  for (const services of parts.has("packets") ? options.packetSizes : []) {
    progress(`packet path, ${services} services`);
    const rounds = options.packetRounds;
    const milliseconds = PACKET_MILLISECONDS;
    packets.push(await measurePackets(libc, { services, endpoints, rounds, milliseconds }));
  }
  const counters = [];
  for (const services of parts.has("counters") ? options.packetSizes : []) {
    progress(`counters, ${services} services`);
    const rounds = options.packetRounds;
    const milliseconds = PACKET_MILLISECONDS;
    counters.push(await measureCounters(libc, { services, endpoints, rounds, milliseconds }));
  }
  const iptables = parts.has("iptables") ? await measureAllIptables(libc, options) : [];
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: await describeMachine(),
    program,
    sizes,
    ...(packets.length > 0 && { packets }),
    ...(counters.length > 0 && { counters }),
    ...(iptables.length > 0 && { iptables }),
    ...(parts.has("request") && { firstRequest: await firstRequest(libc, options) }),
    ...(parts.has("wide") && {
      wideService: await measureWideService(libc, options.wideEndpoints),
    }),
  };
}

function needsSizes({ parts }: Options): boolean {
  return (["start", "changes", "work", "memory", "cpu", "pause"] as const).some((part) =>
    parts.has(part)
  );
}

/** iptables-nft checks every chain again at every commit: it is measured with the fewest Services. */
async function measureAllIptables(
  libc: Libc,
  { iptablesSizes, endpoints, runs, iptablesChanges: changes }: Options,
): Promise<IptablesResult[]> {
  const results: IptablesResult[] = [];
  for (const [i, services] of iptablesSizes.entries()) {
    for (const backend of i === 0 ? ["nft", "legacy"] as const : ["legacy"] as const) {
      progress(`iptables-${backend}, ${services} services`);
      const each = { services, endpoints, backend, changes, runs: Math.min(runs, IPTABLES_RUNS) };
      results.push(await measureIptables(libc, each));
    }
  }
  return results;
}

async function firstRequest(libc: Libc, { runs }: Options): Promise<number> {
  progress("first request");
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
  return { ...old, ...results, sizes };
}

async function bench(options: Options): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    const program = await makeProgram(folder);
    progress(`measuring ${program}`);
    const results = await measure(options, program);
    print(renderResults(results));
    if (options.output) await write(results, options.output);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function write(
  results: Results,
  { json, plot }: NonNullable<Options["output"]>,
): Promise<void> {
  const all = await mergeInto(json, results);
  await Deno.writeTextFile(json, `${JSON.stringify(all, undefined, 2)}\n`);
  await Deno.writeTextFile(plot, renderPlot(all.sizes));
  progress(`wrote ${json} and ${plot}`);
}

if (import.meta.main) {
  const [first, ...rest] = Deno.args;
  if (first === "scale") await scale(rest);
  else {
    const options = readOptions(Deno.args);
    if (options.help) print(HELP);
    else await bench(options);
  }
  Deno.exit();
}

/**
 * A soak: random changes and faults for as long as one likes; at the end the kernel must hold what
 * the objects ask for, and the memory must not have grown.
 *
 *     deno task soak [SECONDS]
 *     deno task soak attacks [SECONDS]
 *     deno task soak neighbours [ELEMENTS]
 */
import { randomNumbers } from "../support/random.ts";
import { service, slice } from "./cluster.ts";
import { residentMemory } from "./hostile/attacks.ts";
import { formatAttackReport, soakUnderAttack } from "./soak_attacks.ts";
import { formatNeighbourReport, soakNeighbours } from "./soak_neighbours.ts";
import { Faults } from "./soak_faults.ts";
import { RestlessCluster } from "./soak_cluster.ts";
import { both, bothFlows, Stage, syncs } from "./stage.ts";

/** The results of a soak. */
export interface SoakReport {
  readonly changes: number;
  /** How often each fault was injected. */
  readonly faults: ReadonlyMap<string, number>;
  readonly partialSyncs: number;
  readonly fullSyncs: number;
  readonly failedSyncs: number;
  readonly driftRepairs: number;
  readonly warnings: number;
  /** Resident memory in bytes: the mean of half a minute, two minutes after the start and at the end. */
  readonly memory: { readonly early: number; readonly late: number };
}

/** Milliseconds. */
const CHANGE = 40;
const STRIKE = 2_000;
const SAMPLE = 1_000;
/** Seconds. */
const WARM_UP = 120;
const WINDOW = 30;

/**
 * Runs a daemon through changes and faults.
 *
 * @param options.seed chooses changes and faults
 * @throws {Error} where the kernel does not come to hold the final objects' rules
 */
export async function soak(
  options: { readonly seconds: number; readonly seed: number },
): Promise<SoakReport> {
  const { seconds, seed } = options;
  await using stage = await Stage.create({
    objects: both((a) => [
      service(a, { name: `web${a.family}` }),
      slice(a, ["local1"], { service: `web${a.family}` }),
    ]),
  });
  const faults = await Faults.create(stage, randomNumbers(seed));
  await using signpost = stage.start(["-v", "2"], { env: faults.env });
  await signpost.until("the first sync", () => syncs(signpost, "full") > 0);

  await faults.begin();
  const cluster = new RestlessCluster(stage, randomNumbers(seed + 1));
  const memory: number[] = [];
  await Promise.all([
    every(CHANGE, seconds, () => cluster.change()),
    every(STRIKE, seconds, () => faults.strike(signpost)),
    every(SAMPLE, seconds, () => void memory.push(residentMemory(signpost.pid))),
  ]);
  await faults.end();
  cluster.settle();

  await stage.tableBecomesExpected(signpost);
  await stage.flowsBecome(
    signpost,
    bothFlows((a) => [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }]),
  );
  const early = memory.slice(0, WARM_UP + WINDOW).slice(-WINDOW);
  return {
    changes: cluster.changes,
    faults: faults.counts,
    partialSyncs: syncs(signpost, "partial"),
    fullSyncs: syncs(signpost, "full"),
    failedSyncs: signpost.log.match(/ sync failed: /g)?.length ?? 0,
    driftRepairs: await stage.metric("signpost_drift_repairs_total"),
    warnings: signpost.log.match(/ (?:WARN|ERROR) /g)?.length ?? 0,
    memory: { early: mean(early), late: mean(memory.slice(-WINDOW)) },
  };
}

/** The report, for people. */
export function formatReport(report: SoakReport): string {
  const { memory: { early, late }, faults } = report;
  const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  const growth = ((late / early - 1) * 100).toFixed(1);
  return [
    `changes ${report.changes}, partial syncs ${report.partialSyncs}, full syncs ${report.fullSyncs}`,
    `failed syncs ${report.failedSyncs}, drift repairs ${report.driftRepairs}, warnings ${report.warnings}`,
    `faults: ${[...faults].map(([name, count]) => `${name} ${count}`).join(", ")}`,
    `resident memory: ${megabytes(early)}, at the end ${megabytes(late)} (${growth} %)`,
    "the kernel holds what the objects ask for",
  ].map((line) => `${line}\n`).join("");
}

/** Does something again and again for so many seconds, in step with the clock where it can. */
async function every(
  milliseconds: number,
  seconds: number,
  body: () => void | Promise<void>,
): Promise<void> {
  const start = performance.now();
  for (let next = milliseconds; next < seconds * 1_000; next += milliseconds) {
    await new Promise((resolve) =>
      setTimeout(resolve, Math.max(0, start + next - performance.now()))
    );
    await body();
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

if (import.meta.main) {
  const print = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(text));
  const [kind, ...numbers] = /^\d/.test(Deno.args[0] ?? "0") ? ["", ...Deno.args] : Deno.args;
  const [first, second] = numbers.map(Number);
  if (!["", "attacks", "neighbours"].includes(kind ?? "") || [first, second].some(Number.isNaN)) {
    print("usage: deno task soak [SECONDS [SEED]], attacks [SECONDS], neighbours [ELEMENTS]\n");
    Deno.exit(kind === "--help" ? 0 : 2);
  } else if (kind === "attacks") {
    print(formatAttackReport(await soakUnderAttack(first ?? 600)));
  } else if (kind === "neighbours") {
    print(formatNeighbourReport(await soakNeighbours(first ?? 100_000)));
  } else {
    const [seconds, seed] = [first ?? 600, second ?? Date.now() % 1_000_000];
    print(`soaking for ${seconds} s, seed ${seed}\n`);
    const report = await soak({ seconds, seed });
    print(formatReport(report));
    if (report.memory.late > 1.1 * report.memory.early) {
      print("the memory has grown by more than 10 %\n");
      Deno.exit(1);
    }
  }
}

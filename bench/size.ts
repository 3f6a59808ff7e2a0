/**
 * Measures one size of cluster.
 *
 * @module
 */
import { Daemon } from "./daemon.ts";
import type { Options } from "./options.ts";
import { type Changes, Churn, measureChanges } from "./parts/changes.ts";
import { measureCpu } from "./parts/cpu.ts";
import { type Floor, measureFloor } from "./parts/floor.ts";
import { measureStart, type Start } from "./parts/start.ts";
import { measureWork } from "./parts/work.ts";
import { Stage } from "./stage.ts";

/** The results with so many Services. */
export interface SizeResult {
  readonly services: number;
  readonly start: Start;
  readonly floor: Floor;
  readonly steady: Changes;
  readonly burst: Changes;
  /** Bytes that V8 allocates for a change. */
  readonly allocated: number;
  /** Part of one core at ten changes a second. */
  readonly cpu: number;
}

const FLOOR_RUNS = 40;
/** Starts take long with very many Services. */
const FEW_RUNS = 3;

/** Measures with so many Services. */
export async function measureSize(services: number, options: Options): Promise<SizeResult> {
  const { endpoints, runs, counted, changes, burst, cpuSeconds } = options;
  const allocated = await measureWork({ services, endpoints, changes: counted });
  await using stage = await Stage.create({ services, endpoints });
  const start = await measureStart(stage, services > 10_000 ? Math.min(runs, FEW_RUNS) : runs);
  const { namespace, api: { kubeconfig } } = stage;
  await using daemon = Daemon.start({ namespace, kubeconfig });
  await daemon.firstSync();
  const live = { daemon, churn: new Churn(stage.options) };
  return {
    services,
    allocated,
    start,
    floor: await measureFloor(stage, FLOOR_RUNS),
    steady: await measureChanges(stage, { ...live, perSecond: 2, count: changes }),
    burst: await measureChanges(stage, { ...live, perSecond: 200, count: 200 * burst }),
    cpu: await measureCpu(stage, { ...live, seconds: cpuSeconds }),
  };
}

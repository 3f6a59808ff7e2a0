/**
 * All measurements that belong to one size of cluster.
 *
 * @module
 */
import { Daemon } from "./daemon.ts";
import type { Libc } from "./libc.ts";
import type { Options } from "./options.ts";
import { Churn, measureChanges } from "./parts/changes.ts";
import { measureCpu } from "./parts/cpu.ts";
import { measureFloor } from "./parts/floor.ts";
import { measurePause } from "./parts/pause.ts";
import { measureStart } from "./parts/start.ts";
import { measureWork } from "./parts/work.ts";
import type { SizeResult } from "./results.ts";
import { Stage } from "./stage.ts";

const FLOOR_RUNS = 40;
/** Starts take long with very many services. */
const FEW_RUNS = 3;
/** The cost of one sync does not depend on the size: a larger one would show the same pauses. */
const LARGEST_PAUSE = 10_000;

/** Runs the wanted parts with so many Services. */
export async function measureSize(
  libc: Libc,
  services: number,
  options: Options,
): Promise<SizeResult> {
  const { endpoints, parts, runs, counted } = options;
  const work = parts.has("work")
    ? await measureWork({ services, endpoints, changes: counted })
    : undefined;
  await using stage = await Stage.create(libc, { services, endpoints });
  const start = parts.has("start")
    ? await measureStart(stage, services > 10_000 ? Math.min(runs, FEW_RUNS) : runs)
    : undefined;
  const isLive = parts.has("changes") || parts.has("cpu");
  return {
    services,
    endpointsEach: endpoints,
    ...(work && { work }),
    ...(start && { start }),
    ...(isLive && await measureLive(stage, options)),
    ...(parts.has("pause") && services <= LARGEST_PAUSE &&
      { pause: await measurePause(stage, options.pause) }),
  };
}

/** Measures one running daemon. */
async function measureLive(stage: Stage, options: Options): Promise<Partial<SizeResult>> {
  const { parts, changes, burst, cpuSeconds } = options;
  const { namespace, api: { kubeconfig } } = stage;
  await using daemon = Daemon.start({ namespace, kubeconfig });
  await daemon.firstSync();
  const churn = new Churn(stage.options);
  const live = { daemon, churn };
  const result: { -readonly [K in keyof SizeResult]?: SizeResult[K] } = {};
  if (parts.has("changes")) {
    result.floor = await measureFloor(stage, FLOOR_RUNS);
    result.steady = await measureChanges(stage, { ...live, perSecond: 2, count: changes });
    result.burst = await measureChanges(stage, { ...live, perSecond: 200, count: 200 * burst });
  }
  if (parts.has("cpu")) result.cpu = await measureCpu(stage, { ...live, seconds: cpuSeconds });
  return result;
}

/**
 * The pause between syncs, as it is where nothing sets it, beside a fixed second: how soon changes are
 * in the kernel, and what that costs.
 *
 * @module
 */
import { Daemon, type MinSyncPeriod } from "../daemon.ts";
import { type Cpu, readCpu } from "../processes.ts";
import type { Stage } from "../stage.ts";
import { type Changes, Churn, measureChanges } from "./changes.ts";

/** One pace of changes. */
export interface Paced {
  readonly changes: Changes;
  /** Parts of one core that signpost, and the programs that it ran, were busy. */
  readonly busy: Cpu;
  /** Part of the time in which a sync ran: what the adaptive pause limits. */
  readonly syncing: number;
}

/** With one setting. */
export interface Pause {
  readonly minSyncPeriod: MinSyncPeriod;
  /** Two changes a second: each is a lone one. */
  readonly lone: Paced;
  /** 50 changes a second. */
  readonly burst: Paced;
}

/** So many changes of each kind. */
export interface PauseOptions {
  readonly lone: number;
  readonly burst: number;
}

/** Measures both settings, one after the other. */
export async function measurePause(stage: Stage, options: PauseOptions): Promise<Pause[]> {
  const results: Pause[] = [];
  for (const minSyncPeriod of ["adaptive", "1s"] as const) {
    await stage.flush();
    const { namespace, api: { kubeconfig } } = stage;
    await using daemon = Daemon.start({ namespace, kubeconfig, minSyncPeriod });
    await daemon.firstSync();
    const live = { daemon, churn: new Churn(stage.options, results.length * SERIALS) };
    // What the start left behind is tidied up first.
    await measurePaced(stage, { ...live, perSecond: 10, count: WARM_UP });
    const lone = await measurePaced(stage, { ...live, perSecond: 2, count: options.lone });
    const burst = await measurePaced(stage, { ...live, perSecond: 50, count: options.burst });
    results.push({ minSyncPeriod, lone, burst });
  }
  return results;
}

const WARM_UP = 30;

/** Addresses for one setting's changes: one that has been there before would be seen too early. */
const SERIALS = 0x80000;

async function measurePaced(
  stage: Stage,
  options: Parameters<typeof measureChanges>[1],
): Promise<Paced> {
  const { daemon } = options;
  const firstLine = daemon.lines.length;
  const before = await readCpu(daemon.pid);
  const begin = performance.now();
  const changes = await measureChanges(stage, options);
  const seconds = (performance.now() - begin) / 1000;
  const after = await readCpu(daemon.pid);
  const syncs = daemon.lines.slice(firstLine).filter(({ msg }) => msg === "synced");
  const syncing = syncs.reduce((sum, line) => sum + Number(line["seconds"]), 0) / seconds;
  const busy = {
    own: (after.own - before.own) / seconds,
    children: (after.children - before.children) / seconds,
  };
  return { changes, busy, syncing };
}

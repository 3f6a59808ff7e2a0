/**
 * The pause between syncs, as it is where nothing sets it, beside a fixed second: how soon changes are
 * in the kernel, and what that costs, in each mode.
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
  /** Milliseconds of the longest sync: what came while it ran has waited for it, whatever the pause. */
  readonly longest: number;
}

/** With one setting. */
export interface Pause {
  readonly mode: Mode;
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

type Mode = "nftables" | "iptables";

/** iptables-nft has the kernel check every chain at every commit: beyond this, that is all there is to see. */
const MOST_IPTABLES = 1_000;

/** Measures both settings, one after the other, in each mode. */
export async function measurePause(stage: Stage, options: PauseOptions): Promise<Pause[]> {
  const results: Pause[] = [];
  const both = stage.options.services <= MOST_IPTABLES;
  for (const mode of both ? ["nftables", "iptables"] as const : ["nftables"] as const) {
    for (const minSyncPeriod of ["adaptive", "1s"] as const) {
      await stage.flush();
      const { namespace, api: { kubeconfig } } = stage;
      await using daemon = Daemon.start({ namespace, kubeconfig, mode, minSyncPeriod });
      await daemon.firstSync();
      const live = { daemon, churn: new Churn(stage.options, results.length * SERIALS) };
      // What the start left behind is tidied up first.
      await measurePaced(stage, { ...live, perSecond: 10, count: WARM_UP });
      const lone = await measurePaced(stage, { ...live, perSecond: 2, count: options.lone });
      const burst = await measurePaced(stage, { ...live, perSecond: 50, count: options.burst });
      results.push({ mode, minSyncPeriod, lone, burst });
    }
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
  const times = syncs.map((line) => Number(line["seconds"]));
  const syncing = times.reduce((sum, each) => sum + each, 0) / seconds;
  const longest = 1000 * Math.max(0, ...times);
  const busy = {
    own: (after.own - before.own) / seconds,
    children: (after.children - before.children) / seconds,
  };
  return { changes, busy, syncing, longest };
}

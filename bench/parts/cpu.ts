/**
 * CPU time under a steady stream of changes, `nft` included.
 *
 * @module
 */
import type { Daemon } from "../daemon.ts";
import { readCpuSeconds } from "../processes.ts";
import type { Stage } from "../stage.ts";
import { type Churn, sleepUntil } from "./changes.ts";

/** Changes of endpoints in a second. */
const STEADY_PACE = 10;

/** Returns the part of one core that signpost, and the programs that it ran, were busy for so many seconds. */
export async function measureCpu(
  stage: Stage,
  options: { readonly daemon: Daemon; readonly churn: Churn; readonly seconds: number },
): Promise<number> {
  const { daemon, churn, seconds } = options;
  const before = await readCpuSeconds(daemon.pid);
  const start = performance.now();
  for (let i = 0; i < seconds * STEADY_PACE; i++) {
    await sleepUntil(start + (i * 1000) / STEADY_PACE);
    await stage.api.put(churn.next().slice);
  }
  const elapsed = (performance.now() - start) / 1000;
  return (await readCpuSeconds(daemon.pid) - before) / elapsed;
}

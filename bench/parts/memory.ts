/**
 * Resident memory: after the first sync, and after a time of churn.
 *
 * @module
 */
import type { Daemon } from "../daemon.ts";
import { type Memory, readMemory } from "../processes.ts";
import type { Stage } from "../stage.ts";
import { type Churn, sleepUntil } from "./changes.ts";

/** Milliseconds that a program rests before its memory is read. V8 collects garbage within 25 s after much work. */
const REST = 30_000;

/** The memory of a program at rest. */
export async function measureMemory(daemon: { readonly pid: number }): Promise<Memory> {
  await sleepUntil(performance.now() + REST);
  return await readMemory(daemon.pid);
}

/** The memory after so many seconds of ten changes a second. */
export async function measureMemoryAfterChurn(
  stage: Stage,
  options: { readonly daemon: Daemon; readonly churn: Churn; readonly seconds: number },
): Promise<Memory & { readonly seconds: number }> {
  const { daemon, churn, seconds } = options;
  await changeFor(stage, churn, seconds);
  return { seconds, ...await measureMemory(daemon) };
}

/** Changes of endpoints in a second, where the pace is not the point. */
export const STEADY_PACE = 10;

/** Makes ten changes a second for a time. */
export async function changeFor(stage: Stage, churn: Churn, seconds: number): Promise<void> {
  const begin = performance.now();
  for (let i = 0; i < seconds * STEADY_PACE; i++) {
    await sleepUntil(begin + (i * 1000) / STEADY_PACE);
    await stage.api.put(churn.next().slice);
  }
}

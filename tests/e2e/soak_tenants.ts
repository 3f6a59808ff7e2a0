/** Parts of the soaks that time one tenant's changes beside other tenants. */
import { quantile } from "../../bench/statistics.ts";
import { ADDRESSES, PORT, slice } from "./cluster.ts";
import type { Stage } from "./stage.ts";

const a = ADDRESSES[4];
/** Milliseconds. */
const PATIENCE = 60_000;

/** Moves the Service to its other endpoint. @returns milliseconds until connections follow */
export async function moveEndpoint(stage: Stage, round: number): Promise<number> {
  const host = round % 2 === 0 ? "local2" : "local1";
  const began = performance.now();
  stage.apply(slice(a, [host]));
  while (!await reaches(stage, host) && performance.now() - began < PATIENCE);
  return performance.now() - began;
}

async function reaches(stage: Stage, host: string): Promise<boolean> {
  const request = { from: "pod", address: a.clusterIP, port: PORT, times: 1 };
  const [outcome] = await stage.network.connect(request);
  return outcome?.type === "answer" && outcome.answer.host === host;
}

/** Removes the objects of all tenants but `shop`. @param pause milliseconds after each object */
export async function removeOthers({ api: { store } }: Stage, pause = 0): Promise<void> {
  for (const kind of ["Service", "EndpointSlice"]) {
    for (const key of store.keys(kind)) {
      if (!key.startsWith("shop/")) store.delete(kind, key);
      await sleep(pause);
    }
  }
}

/**
 * Lets the process do other work. The API server and the clock of the changes share it, and encoding 100
 * slices of 1,000 endpoints without a break adds 100 ms to a change.
 */
export function giveWay(): Promise<void> {
  return sleep(0);
}

/** Resolves after these milliseconds. */
export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Formats the times of changes, in milliseconds, for people. */
export function formatTimes(times: readonly number[]): string {
  const at = (part: number) => Math.round(quantile(times, part));
  return `${times.length} changes: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, the slowest ${at(1)} ms`;
}

/**
 * Adapter: what this process takes of the machine. It needs no permission.
 *
 * @module
 */
import process from "node:process";
import type { ProcessUsage } from "../observe/metrics/signpost_metrics.ts";

/** Readings of this process. */
export function processUsage(): ProcessUsage {
  return {
    residentMemory: () => Deno.memoryUsage().rss,
    cpu: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000_000;
    },
    started: performance.timeOrigin / 1_000,
  };
}

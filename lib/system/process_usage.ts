/**
 * Adapter: what this process takes of the machine. It needs no permission.
 *
 * @module
 */
import process from "node:process";
import type { ProcessUsage } from "../observe/metrics/process_metrics.ts";

/** Machines by the names that Go has for them. */
const GO_NAMES = { x86_64: "amd64", aarch64: "arm64" } as const;

/** Readings of this process. */
export function processUsage(): ProcessUsage {
  return {
    residentMemory: () => Deno.memoryUsage().rss,
    heap: () => {
      const { heapTotal, heapUsed, external } = Deno.memoryUsage();
      return { total: heapTotal, used: heapUsed, external };
    },
    cpu: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000_000;
    },
    started: performance.timeOrigin / 1_000,
    platform: `${Deno.build.os}/${GO_NAMES[Deno.build.arch]}`,
  };
}

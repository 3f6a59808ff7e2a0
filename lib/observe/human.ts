/** Prints times, sizes and health for people. */
import type { Progress } from "../model/kernel/dataplane.ts";
import type { Status } from "../model/status.ts";
import { count } from "../model/values/text.ts";

const UNITS: readonly (readonly [unit: string, seconds: number])[] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
];

/** Prints a span of seconds: `4s`, `12m`, `3h`, `9d`; never negative. */
export function formatAge(seconds: number): string {
  const count = Math.max(0, Math.floor(seconds));
  const [unit, size] = UNITS.find(([, size]) => count >= 2 * size) ?? ["s", 1];
  return `${Math.floor(count / size)}${unit}`;
}

/** Prints an age: `4s ago`. @param time RFC 3339; `""`: never @param now milliseconds since the epoch */
export function formatAgo(time: string, now: number): string {
  const milliseconds = Date.parse(time);
  return Number.isNaN(milliseconds) ? "never" : `${formatAge((now - milliseconds) / 1000)} ago`;
}

/** Prints a duration: `0.4 ms`, `12 ms`, `1.20 s`. */
export function formatDuration(seconds: number): string {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  const milliseconds = seconds * 1000;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}

/** Prints a rate: `0`, `0.4`, `12`, `3400`. */
export function formatRate(perSecond: number): string {
  return perSecond > 0 && perSecond < 9.95 ? perSecond.toFixed(1) : `${Math.round(perSecond)}`;
}

/** Prints a number of bytes: `812 B`, `3.2 kB`, `14 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const [unit, size] = bytes < 999_500 ? ["kB", 1000] : ["MB", 1_000_000];
  const value = bytes / Number(size);
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

/** Prints the progress of a table in portions: `portions 7 of 21`. */
export function describeProgress({ done, of }: Progress): string {
  return `portions ${done} of ${of}`;
}

/** Describes the health of the daemon. */
export function healthOf(
  status: Pick<Status, "healthy" | "nodeEligible" | "stale" | "portions" | "findings" | "syncs">,
): { readonly health: string; readonly colour: "green" | "yellow" | "red" } {
  if (!status.healthy) return { health: "unhealthy: an update waits for too long", colour: "red" };
  const errors = status.findings.filter(({ severity }) => severity === "error").length;
  if (errors > 0) return { health: `unhealthy: ${count(errors, "error")}`, colour: "red" };
  if (status.portions) {
    return {
      health: `starting: ${describeProgress(status.portions)} are in the kernel`,
      colour: "yellow",
    };
  }
  if (status.syncs.length === 0) {
    return { health: "starting: no rules are written yet", colour: "yellow" };
  }
  if (status.stale) {
    return { health: "healthy, with the rules of the state file", colour: "yellow" };
  }
  const warnings = status.findings.filter(({ severity }) => severity === "warning").length;
  if (status.nodeEligible && warnings > 0) {
    return { health: `healthy, with ${count(warnings, "warning")}`, colour: "yellow" };
  }
  return status.nodeEligible
    ? { health: "healthy", colour: "green" }
    : { health: "healthy, but load balancers are sent elsewhere", colour: "yellow" };
}

/** Returns the program that writes the rules, with its version. */
export function programOf({ nft }: Pick<Status, "nft">): string {
  return /^\d/.test(nft) ? `nft ${nft}` : nft;
}

/** Prints times, sizes and health for people. */
import type { Progress } from "../model/kernel/dataplane.ts";
import { countByKind, type HistoryEntry, type Severity, type Status } from "../model/status.ts";
import { redactSecrets } from "./log.ts";
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

/** Describes a change of a Service in a line. */
export function changeText({ at, what, milliseconds }: HistoryEntry): string {
  const took = milliseconds === null
    ? ""
    : `, in the kernel after ${formatDuration(milliseconds / 1_000)}`;
  return `${at} ${what}${took}`;
}

/** Prints a rate: `0`, `0.4`, `12`, `3400`. */
export function formatRate(perSecond: number): string {
  return perSecond > 0 && perSecond < 9.95 ? perSecond.toFixed(1) : `${Math.round(perSecond)}`;
}

/** Prints a number of bytes: `812 B`, `3.2 kB`, `14 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const [value, unit] = bytes < 999_500 ? [bytes / 1e3, "kB"] : [bytes / 1e6, "MB"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

/** Prints the progress of a table in portions: `portions 7 of 21`. */
export function describeProgress({ done, of }: Progress): string {
  return `portions ${done} of ${of}`;
}

type HealthColour = "green" | "yellow" | "red";

/** The parts of a status that decide its health. */
type HealthFacts = Pick<
  Status,
  "healthy" | "nodeEligible" | "stale" | "portions" | "findings" | "syncs" | "watches"
>;

/** Describes the health in one line. @param now milliseconds since the epoch */
export function healthOf(
  status: HealthFacts,
  now: number,
): { readonly health: string; readonly colour: HealthColour } {
  const { healthy, nodeEligible, stale, portions, findings, syncs } = status;
  const result = (colour: HealthColour, health: string) => ({ health, colour });
  const all = (severity: Severity) => findings.filter((each) => each.severity === severity).length;
  const [errors, warnings] = [all("error"), all("warning")];
  if (!healthy) return result("red", "unhealthy: an update waits for too long");
  const cutOff = describeCutOff(status, now);
  if (cutOff !== undefined) return result("red", cutOff);
  if (errors > 0) return result("red", `unhealthy: ${count(errors, "error")}`);
  if (portions) {
    return result("yellow", `starting: ${describeProgress(portions)} are in the kernel`);
  }
  if (syncs.length === 0) return result("yellow", "starting: no rules are written yet");
  if (stale) return result("yellow", "healthy, with the rules of the state file");
  if (!nodeEligible) return result("yellow", "healthy, but load balancers avoid this node");
  if (warnings > 0) return result("yellow", `healthy, with ${count(warnings, "warning")}`);
  return result("green", "healthy");
}

const API_ERRORS = ["api-server-unreachable", "api-server-refuses"];

/** Says how long no watch is open, if all errors are about the API server; else `undefined`. */
function describeCutOff(
  { findings, syncs, stale, watches }: HealthFacts,
  now: number,
): string | undefined {
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length === 0 || !errors.every(({ id }) => API_ERRORS.includes(id))) return undefined;
  const failing = watches.filter(({ failingSince }) => failingSince !== "");
  if (failing.length === 0 || watches.some(({ state }) => state === "watching")) return undefined;
  const since = failing.reduce((time, each) => Math.max(time, Date.parse(each.failingSince)), 0);
  const cause = redactSecrets(failing[0]?.lastError ?? "").replace(NO_CONNECTION, "");
  const rules = syncs.length === 0
    ? "no rules are written yet"
    : stale
    ? "rules of the state file"
    : "healthy rules";
  const age = formatAge((now - since) / 1000);
  return `${rules}, but cut off from the API server for ${age} (${cause})`;
}

const NO_CONNECTION = /^no connection to the API server: /;

/** Counts problems of objects: `1 Service refused, 2 conflicts, 1 without endpoints`; `""`: none. */
export function describeObjectProblems(
  { conflicts, servicesWithoutEndpoints, ...refusals }: Pick<
    Status,
    "refused" | "refusedByKind" | "conflicts" | "servicesWithoutEndpoints"
  >,
): string {
  return [
    ...Object.entries(refusedByKind(refusals)).map(([kind, all]) => `${count(all, kind)} refused`),
    ...conflicts.length > 0 ? [count(countConflicts(conflicts), "conflict")] : [],
    ...servicesWithoutEndpoints > 0 ? [`${servicesWithoutEndpoints} without endpoints`] : [],
  ].join(", ");
}

type Refusals = Pick<Status, "refused" | "refusedByKind">;

/** Returns the number of refused objects by kind, also for an older daemon, which lists all of them. */
function refusedByKind({ refused, refusedByKind }: Refusals): NonNullable<Status["refusedByKind"]> {
  return refusedByKind ?? countByKind(refused);
}

export function countRefused(refusals: Refusals): number {
  return Object.values(refusedByKind(refusals)).reduce((sum, each) => sum + each, 0);
}

/** Counts conflicts, also those that a last entry counts. */
export function countConflicts(conflicts: Status["conflicts"]): number {
  return conflicts.reduce((sum, { more = 1 }) => sum + more, 0);
}

/** Returns the program that writes the rules, with its version. */
export function programOf({ nft }: Pick<Status, "nft">): string {
  return /^\d/.test(nft) ? `nft ${nft}` : nft;
}

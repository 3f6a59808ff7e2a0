/**
 * What `signpost status` prints for people.
 *
 * @module
 */
import type { Status } from "../../model/status.ts";
import { count } from "../../model/values/text.ts";
import {
  formatAge,
  formatAgo,
  formatDuration,
  formatLocalhost,
  formatSize,
  formatTakeOver,
  healthOf,
  minSyncPeriodOf,
  programOf,
} from "../../observe/human.ts";
import { renderFindings } from "../check/table.ts";
import { type Paint, textTable } from "../output.ts";

/** How a status is shown. */
export interface StatusTableOptions {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly paint: Paint;
}

/** The status as text. */
export function statusTable(status: Status, { now, paint }: StatusTableOptions): string {
  const commit = status.commit === "" ? "" : ` (${status.commit})`;
  const { health, colour } = healthOf(status);
  return [
    `signpost ${status.version}${commit} on ${status.node}: ${paint(health, colour)}\n`,
    textTable(facts(status, now), "  "),
    status.findings.length === 0 ? "" : `\n${renderFindings(status.findings, paint)}`,
    section("WATCH", [
      ["WATCH", "STATE", "VERSION", "LAST EVENT", "LISTS", "LAST ERROR"],
      ...status.watches.map((watch) => [
        watch.kind,
        watch.state,
        watch.resourceVersion,
        formatAgo(watch.lastEvent, now),
        `${watch.lists}`,
        watch.lastError,
      ]),
    ]),
    section("SYNC", [
      ["SYNC", "WHEN", "TOOK", "OPERATIONS", "SIZE"],
      ...status.syncs.map((sync) => [
        sync.kind,
        formatAgo(sync.at, now),
        formatDuration(sync.seconds),
        `${sync.operations}`,
        formatSize(sync.bytes),
      ]),
    ]),
    section("REFUSED", [
      ["REFUSED", "OBJECT", "WHY"],
      ...status.refused.map(({ kind, key, reason }) => [kind, key, reason]),
    ]),
    section("CONFLICT", [
      ["CONFLICT", "HELD BY", "WANTED BY", "WHY"],
      ...status.conflicts.map(({ claim, holder, loser, because }) => [
        claim,
        holder,
        loser,
        because,
      ]),
    ]),
  ].join("");
}

/** A status in one line, for logs. */
export function statusLine(status: Status, now: number): string {
  const last = status.syncs.at(-1);
  const sync = last
    ? `last sync ${last.kind} ${formatAgo(last.at, now)} in ${formatDuration(last.seconds)}`
    : "no sync yet";
  const watching = status.watches.filter(({ state }) => state === "watching").length;
  const watches = status.watches.length === 0
    ? ""
    : `${watching} of ${status.watches.length} watches, `;
  return `${new Date(now).toISOString()} ${healthOf(status).health}, ${status.mode}, ` +
    `${status.services} services, ${status.endpoints} endpoints, ${sync}, ` +
    `${watches}${count(status.findings.length, "finding")}, ${status.refused.length} refused, ` +
    `${status.conflicts.length} conflicts, ${status.driftRepairs} drift repairs\n`;
}

function facts(status: Status, now: number): string[][] {
  const program = status.nft === "" ? status.mode : `${status.mode} (${programOf(status)})`;
  const { snapshotAgeSeconds: age } = status;
  const minSyncPeriod = minSyncPeriodOf(status);
  return [
    ["mode", `${program}, kernel ${status.kernel}`],
    ...status.missingFamilies.map(({ family, reason }) => [family, `no rules: ${reason}`]),
    ...minSyncPeriod === "" ? [] : [["min sync period", minSyncPeriod]],
    ["started", formatAgo(status.started, now)],
    ["services", `${status.services} with ${status.servicePorts} ports`],
    ["endpoints", `${status.endpoints} in ${status.endpointSlices} slices`],
    ["drift repairs", `${status.driftRepairs}`],
    ...status.localhostNodePorts
      ? [["on localhost", formatLocalhost(status.localhostNodePorts)]]
      : [],
    ...(status.takeOver ? [["take-over", formatTakeOver(status.takeOver)]] : []),
    ["state file", age === null ? "none" : `${formatAge(age)} old`],
  ];
}

/** Nothing where there is but the head. */
function section(title: string, rows: readonly (readonly string[])[]): string {
  if (rows.length > 1) return `\n${textTable(rows)}`;
  return title === "SYNC" ? "\nno sync yet\n" : "";
}

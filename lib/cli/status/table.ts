/**
 * What `signpost status` prints for people.
 *
 * @module
 */
import type { Status } from "../../model/status.ts";
import { count } from "../../model/values/text.ts";
import { formatAgo, formatDuration, healthOf } from "../../observe/human.ts";
import { statusView, type TextRows } from "../../observe/status_view.ts";
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
  const { version, facts, watches, syncs, refused, conflicts } = statusView(status, now);
  const { health, colour } = healthOf(status);
  return [
    `signpost ${version} on ${status.node}: ${paint(health, colour)}\n`,
    textTable(facts, "  "),
    status.findings.length === 0 ? "" : `\n${renderFindings(status.findings, paint)}`,
    ...[watches, syncs, refused, conflicts].map(section),
  ].join("");
}

/** Writes nothing if there are no rows. */
function section({ head, rows }: TextRows): string {
  if (rows.length === 0) return "";
  return `\n${textTable([head.map((cell) => cell.toUpperCase()), ...rows])}`;
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

/**
 * What `signpost top` prints for people.
 *
 * @module
 */
import type { ConnectionsReport } from "../../model/connections.ts";
import { grouped } from "../../model/values/text.ts";
import { formatRate } from "../../observe/human.ts";
import { colourTable, type Paint } from "../output.ts";

const HEAD = ["SERVICE", "PORT", "FRONTEND", "PER SECOND", "IN ALL"];
/** The columns of numbers. */
const RIGHT: readonly number[] = [3, 4];

/** The connections as text, the busiest first. */
export function topTable(
  { node, services, overSeconds, total }: ConnectionsReport,
  paint: Paint,
): string {
  const over = overSeconds === 0 ? "" : `, over the last ${formatRate(overSeconds)} s`;
  const title =
    `signpost on ${node}: ${formatRate(total.perSecond)} new connections a second${over}; ` +
    `${grouped(total.connections)} in all\n\n`;
  if (services.length === 0) return `${title}no connection to a Service yet\n`;
  const rows = services.map((each) => [
    `${each.namespace}/${each.service}`,
    `${each.port}/${each.protocol}`,
    each.frontend,
    formatRate(each.perSecond),
    grouped(each.connections),
  ]);
  const widths = RIGHT.map((column) =>
    [HEAD, ...rows].reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0)
  );
  const aligned = [HEAD, ...rows].map((row) =>
    row.map((cell, column) => cell.padStart(widths[RIGHT.indexOf(column)] ?? 0))
  );
  return title + colourTable(aligned, { paint });
}

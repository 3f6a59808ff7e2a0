/** `signpost top`: shows the connections of each Service, as the daemon counts them. */
import type { CommandOf } from "../config/command.ts";
import { askConnections } from "./client.ts";
import type { ConnectionsReport } from "../model/connections.ts";
import { FatalError, messageIfFatal } from "../model/values/errors.ts";
import { grouped } from "../model/values/text.ts";
import { colourTable, follow, type Paint, renderReport } from "./output.ts";
import type { QueryContext } from "./context.ts";
import { formatRate } from "../observe/human.ts";

/** Readings that are waited for until there is a rate: there are two, unless the daemon has just begun. */
const MOST_READINGS = 4;

/** Shows the daemon's connections. @returns 0; 1 if it does not answer, or counts none */
export async function top(
  { output, namespace, once }: CommandOf<"top">,
  context: QueryContext,
): Promise<number> {
  const { runtime, logger } = context;
  const render = (report: ConnectionsReport): string => {
    const shown = namespace === "" ? report : ofNamespace(report, namespace);
    return renderReport(shown, { output, runtime, table: topTable });
  };
  try {
    const first = await ask(context);
    const isLive = !once && output === "table" && runtime.isTerminal();
    if (!isLive) {
      await runtime.print(render(await withRates(first, context)));
      return 0;
    }
    const mostShown = () => namespace === "" ? runtime.terminalSize().rows : undefined;
    await follow(first, {
      ...context,
      render,
      ask: () => ask(context, mostShown()),
      problem: (message) => message,
      pause: 1000 * first.everySeconds,
      isLive,
    });
    return 0;
  } catch (error) {
    logger.error(messageIfFatal(error));
    return 1;
  }
}

/** Asks the daemon. @throws {FatalError} if it does not answer, or counts no connections */
async function ask(context: QueryContext, most?: number): Promise<ConnectionsReport> {
  const report = await askConnections(context, most);
  if (report.off !== "") throw new FatalError(`connections are not counted: ${report.off}`);
  return report;
}

/** Reads again until the report has rates: a rate takes two readings. */
async function withRates(
  first: ConnectionsReport,
  context: QueryContext,
): Promise<ConnectionsReport> {
  const { runtime, signal } = context;
  let report = first;
  for (let readings = 1; readings < MOST_READINGS && !signal.aborted; readings++) {
    if (readings > 1 && report.overSeconds > 0) break;
    await runtime.clock.sleep(1000 * report.everySeconds, signal);
    report = await ask(context);
  }
  return report;
}

function ofNamespace(report: ConnectionsReport, namespace: string): ConnectionsReport {
  const services = report.services.filter((each) => each.namespace === namespace);
  const sum = (field: "connections" | "perSecond") =>
    services.reduce((all, each) => all + each[field], 0);
  const total = { connections: sum("connections"), perSecond: sum("perSecond") };
  return { ...report, services, total };
}

const HEAD = ["SERVICE", "PORT", "FRONTEND", "PER SECOND", "IN ALL"];
const RIGHT: readonly number[] = [3, 4];

/** Renders the connections as text, the busiest first. */
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

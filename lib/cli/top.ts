/** `signpost top`: shows the connections of each Service, as the daemon counts them. */
import type { CommandOf } from "../config/command.ts";
import { askConnections } from "./client.ts";
import {
  type ConnectionsReport,
  REJECTIONS,
  type ServiceConnections,
} from "../model/connections.ts";
import { FatalError, messageIfFatal } from "../model/values/errors.ts";
import { alternatives, grouped } from "../model/values/text.ts";
import { follow, SCROLL_HELP } from "./follow.ts";
import { colourTable, type Paint, renderReport } from "./output.ts";
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
  const asked = { ...WHOLE, namespace };
  let view: View = asked;
  let namespaces: readonly string[] = [];
  const render = (report: ConnectionsReport): string => {
    namespaces = [...new Set(report.services.map((each) => each.namespace))].sort();
    const shown = view.namespace === "" ? report : ofNamespace(report, view.namespace);
    const table = (plain: ConnectionsReport, paint: Paint) => topTable(plain, paint, view);
    return renderReport(shown, { output, runtime, table });
  };
  try {
    const first = await ask(context);
    const isLive = !once && output === "table" && runtime.isTerminal();
    if (!isLive) {
      await runtime.print(render(await withRates(first, context)));
      return 0;
    }
    // The next pages are there at once.
    const mostShown = (offset: number) =>
      view === asked && namespace === "" ? offset + 4 * runtime.terminalSize().rows : undefined;
    await follow(first, {
      ...context,
      render,
      ask: (offset) => ask(context, mostShown(offset)),
      problem: (message) => message,
      pause: 1000 * first.everySeconds,
      isLive,
      layout: { fixed: 3, wraps: false, help: HELP },
      takeKey: (key) => {
        const next = viewAfter(key, view, namespaces);
        view = next ?? view;
        return next !== undefined;
      },
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
  const [services, rejected] = [report.services, report.rejected].map((all) =>
    all.filter((each) => each.namespace === namespace)
  );
  const totalOf = (all: readonly ServiceConnections[] = []) => ({
    connections: all.reduce((sum, { connections }) => sum + connections, 0),
    perSecond: all.reduce((sum, { perSecond }) => sum + perSecond, 0),
  });
  return {
    ...report,
    services: services ?? [],
    total: totalOf(services),
    rejected: rejected ?? [],
    totalRejected: totalOf(rejected),
  };
}

/** The part of the report that is shown. */
interface View {
  /** `""`: all. */
  readonly namespace: string;
  /** A part of the names that are shown. */
  readonly filter: string;
  /** True while keys are letters of the filter. */
  readonly isTyping: boolean;
  /** The index of its order in `ORDERS`. */
  readonly order: number;
}

const WHOLE: View = { namespace: "", filter: "", isTyping: false, order: 0 };

type Order = (a: ServiceConnections, b: ServiceConnections) => number;

const ORDERS: readonly (readonly [name: string, order: Order])[] = [
  // The daemon's order.
  ["new connections", () => 0],
  ["connections in all", (a, b) => b.connections - a.connections],
  ["name", (a, b) => nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a.port - b.port],
];

const HELP = `Keys

${SCROLL_HELP}  /              show only names with a text: type it, then Enter; Esc shows all
  n              show the next namespace, after the last one all
  s              sort by ${alternatives(ORDERS.map(([name]) => name))}
`;

/** Returns the view after a key; `undefined`: the key does not change it. */
function viewAfter(key: string, view: View, namespaces: readonly string[]): View | undefined {
  if (view.isTyping) {
    if (key === "\n" || key === "\r") return { ...view, isTyping: false };
    if (key === "\x1b") return { ...view, isTyping: false, filter: "" };
    if (key === "\x7f" || key === "\b") return { ...view, filter: view.filter.slice(0, -1) };
    return /^[-a-z0-9./]$/i.test(key) ? { ...view, filter: view.filter + key } : undefined;
  }
  switch (key) {
    case "/":
      return { ...view, isTyping: true, filter: "" };
    case "n": {
      const next = namespaces.find((each) => each > view.namespace);
      return { ...view, namespace: next ?? "" };
    }
    case "s":
      return { ...view, order: (view.order + 1) % ORDERS.length };
    default:
      return undefined;
  }
}

/** Says in a line what the keys have chosen. */
function describeView({ namespace, filter, isTyping, order }: View): string {
  return [
    ...namespace === "" ? [] : [`namespace ${namespace}`],
    ...filter === "" && !isTyping ? [] : [`names with /${filter}${isTyping ? "_" : ""}`],
    ...order === 0 ? [] : [`by ${ORDERS[order]?.[0]}`],
  ].join(", ");
}

function nameOf({ namespace, service }: ServiceConnections): string {
  return `${namespace}/${service}`;
}

// Names come last: they may be cut, numbers may not.
const HEAD = ["PER SECOND", "IN ALL", "FRONTEND", "PORT", "SERVICE"];
const REJECTED = ["REJECTED", "IN ALL", "FRONTEND", "PORT", "WHY", "SERVICE"];
const RIGHT: readonly number[] = [0, 1];

/** Renders the connections as text, the busiest first. */
export function topTable(
  { node, services, overSeconds, total, rejected, totalRejected }: ConnectionsReport,
  paint: Paint,
  view = WHOLE,
): string {
  const inView = (all: readonly ServiceConnections[]) =>
    all.filter((each) => nameOf(each).includes(view.filter.toLowerCase()))
      .sort(ORDERS[view.order]?.[1]);
  const over = overSeconds === 0 ? "" : `, over the last ${formatRate(overSeconds)} s`;
  const refused = totalRejected.connections === 0
    ? ""
    : `; ${formatRate(totalRejected.perSecond)} a second rejected`;
  const title = `${formatRate(total.perSecond)} new connections a second${over}; ` +
    `${grouped(total.connections)} in all on ${node}${refused}\n${describeView(view)}\n`;
  if (services.length + rejected.length === 0) return `${title}no connection to a Service yet\n`;
  const rows = (all: readonly ServiceConnections[]) =>
    inView(all).map((each) => [
      formatRate(each.perSecond),
      grouped(each.connections),
      each.frontend,
      `${each.port}/${each.protocol}`,
      ...each.reason === undefined ? [] : [REJECTIONS[each.reason]],
      nameOf(each),
    ]);
  const tables = [
    alignedTable([HEAD, ...rows(services)], paint),
    alignedTable([REJECTED, ...rows(rejected)], paint),
  ];
  return title + tables.filter((table) => table !== "").join("\n");
}

function alignedTable(rows: readonly (readonly string[])[], paint: Paint): string {
  const widths = RIGHT.map((column) =>
    rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0)
  );
  const aligned = rows.map((row) =>
    row.map((cell, column) => cell.padStart(widths[RIGHT.indexOf(column)] ?? 0))
  );
  return colourTable(aligned, { paint });
}

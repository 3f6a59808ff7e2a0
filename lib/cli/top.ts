/**
 * `signpost top`: shows the connections of each Service, as the daemon counts them, or the open connections of each
 * endpoint of one Service.
 */
import type { CommandOf } from "../config/command.ts";
import type { Answer } from "../explain/answer.ts";
import type { EndpointTraffic } from "../explain/report.ts";
import { readTraffic } from "../explain/traffic.ts";
import { hostPort } from "../model/cluster/names.ts";
import {
  type ConnectionsReport,
  REJECTIONS,
  type ServiceConnections,
} from "../model/connections.ts";
import { FatalError, messageIfFatal } from "../model/values/errors.ts";
import { alternatives, count, grouped } from "../model/values/text.ts";
import { formatRate } from "../observe/human.ts";
import { askConnections, askExplanation } from "./client.ts";
import type { QueryContext } from "./context.ts";
import { follow, type FollowOptions, SCROLL_HELP } from "./follow.ts";
import { type Cell, colourTable, type Paint, renderReport } from "./output.ts";

/** The most readings until there is a rate. Two are enough, unless the daemon has just started. */
const MOST_READINGS = 4;

/** Shows the daemon's connections. @returns 0; 1 if it does not answer, or counts none */
export async function top(command: CommandOf<"top">, context: QueryContext): Promise<number> {
  if (command.service !== "") return await topService(command, context);
  const { namespace, output } = command;
  const { runtime } = context;
  const asked = { ...WHOLE, namespace };
  let view: TopView = asked;
  let namespaces: readonly string[] = [];
  const render = (report: ConnectionsReport): string => {
    namespaces = [...new Set(report.services.map((each) => each.namespace))].sort();
    const shown = view.namespace === "" ? report : ofNamespace(report, view.namespace);
    const table = (plain: ConnectionsReport, paint: Paint) => topTable(plain, paint, view);
    return renderReport(shown, { output, runtime, table });
  };
  // Four pages, so that the next page shows at once.
  const mostShown = (offset: number | undefined) =>
    offset !== undefined && view === asked && namespace === ""
      ? offset + 4 * runtime.terminalSize().rows
      : undefined;
  return await show(command, {
    ...context,
    render,
    ask: (offset) => ask(context, mostShown(offset)),
    complete: (first) => withRates(first, context),
    pause: ({ everySeconds }) => 1000 * everySeconds,
    layout: { fixed: 3, wraps: false, help: HELP },
    takeKey: (key) => {
      const next = viewAfter(key, view, namespaces);
      view = next ?? view;
      return next !== undefined;
    },
  });
}

/** Prints a report or, in a terminal, draws each over the last one. @returns 0; 1 after an error, which is logged */
async function show<Report>(
  { output, once }: CommandOf<"top">,
  { complete, ...options }: QueryContext & Omit<FollowOptions<Report>, "isLive"> & {
    /** Completes the only report. @default it is complete */
    readonly complete?: (first: Report) => Promise<Report>;
  },
): Promise<number> {
  const { runtime, logger, ask, render } = options;
  const isLive = !once && output === "table" && runtime.isTerminal();
  try {
    const first = await ask();
    if (isLive) await follow(first, { ...options, isLive });
    else await runtime.print(render(await complete?.(first) ?? first));
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
interface TopView {
  /** `""`: all. */
  readonly namespace: string;
  /** The text that the shown names contain. */
  readonly filter: string;
  /** True while keys are letters of the filter. */
  readonly isTyping: boolean;
  /** The index of the order in `ORDERS`. */
  readonly order: number;
}

const WHOLE: TopView = { namespace: "", filter: "", isTyping: false, order: 0 };

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
function viewAfter(key: string, view: TopView, namespaces: readonly string[]): TopView | undefined {
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

/** Describes the choices of the keys in a line. */
function describeView({ namespace, filter, isTyping, order }: TopView): string {
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
/** Numbers. */
const RIGHT = 2;

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
  const tables = [[HEAD, ...rows(services)], [REJECTED, ...rows(rejected)]]
    .map((each) => colourTable(each, { paint, right: RIGHT }));
  return title + tables.filter((table) => table !== "").join("\n");
}

/** Milliseconds between two listings. */
const PAUSE = 2_000;

export interface TopReport {
  /** The version grows when a field is removed or changes its meaning. */
  readonly topVersion: 1;
  readonly node: string;
  readonly service: string;
  /** The endpoints. The most open connections come first. */
  readonly endpoints: readonly (Omit<EndpointTraffic, "isCurrent"> & {
    /** The endpoint's node; `""`: not known. */
    readonly endpointNode: string;
    /** `used`, or the reason why it gets no new connections; `gone`: it is in no EndpointSlice. */
    readonly state: string;
  })[];
}

/** Shows the connections of a Service. @returns 0; 1 if the connections cannot be read */
async function topService(command: CommandOf<"top">, context: QueryContext): Promise<number> {
  const { output, namespace, service: question } = command;
  const { runtime } = context;
  return await show(command, {
    ...context,
    render: (report: TopReport) => renderReport(report, { output, runtime, table: serviceTable }),
    ask: async () =>
      await reportOf(await askExplanation(context, { question, namespace, from: "" }), context),
    pause: () => PAUSE,
    layout: { fixed: 2, wraps: false, help: SCROLL_HELP },
  });
}

async function reportOf({ report, about }: Answer, { runtime }: QueryContext): Promise<TopReport> {
  if (report.kind !== "service" || report.ports.length === 0) {
    const service = report.kind === "service" ? `Service ${report.service}` : "this address";
    throw new FatalError(`${service} has no rules on this node: see signpost explain`);
  }
  const options = { ...runtime, ownAddresses: runtime.addresses(), isAsked: false };
  const { traffic } = await readTraffic(about.ports, options);
  if (traffic.reason !== "") {
    throw new FatalError(`the connections were not counted: ${traffic.reason}`);
  }
  const listed = report.ports.flatMap(({ protocol, endpoints }) =>
    endpoints.flatMap(({ address, port, node, code: state }) =>
      port === null ? [] : [{ protocol, address, port, endpointNode: node ?? "", state }]
    )
  );
  const none = { open: 0, unanswered: 0, endpointNode: "", state: "gone" };
  const endpoints = new Map<string, TopReport["endpoints"][number]>();
  for (const each of [...traffic.endpoints.map(({ isCurrent: _, ...each }) => each), ...listed]) {
    const key = `${each.protocol} ${hostPort(each.address, each.port)}`;
    endpoints.set(key, { ...none, ...endpoints.get(key), ...each });
  }
  return {
    topVersion: 1,
    node: report.node,
    service: report.service,
    endpoints: [...endpoints.values()].sort((a, b) => b.open - a.open),
  };
}

/** The states in which an endpoint gets no new connections and loses its old ones. */
const DRAINING: readonly string[] = ["terminating", "not-ready", "gone"];

function serviceTable({ node, service, endpoints }: TopReport, paint: Paint): string {
  const all = endpoints.reduce((sum, { open }) => sum + open, 0);
  const rows = endpoints.map(({ state, open, ...each }): Cell[] => {
    const isDraining = DRAINING.includes(state);
    const more = isDraining && open > 0 ? `: ${grouped(open)} still open, not drained yet` : "";
    return [
      grouped(open),
      `${Math.round(100 * open / Math.max(1, all))}%`,
      grouped(each.unanswered),
      `${hostPort(each.address, each.port)}/${each.protocol}`,
      each.endpointNode,
      { text: `${state}${more}`, colour: isDraining ? "yellow" : "green" },
    ];
  });
  const head = [" OPEN", "SHARE", "UNANSWERED", "ENDPOINT", "NODE", "STATE"];
  return `${service}: ${count(all, "open connection")} through ${node}\n\n` +
    colourTable([head, ...rows], { paint, right: 3 });
}

/** `signpost top NAME`: shows the open connections of each endpoint of a Service. */
import type { CommandOf } from "../config/command.ts";
import type { Answer } from "../explain/answer.ts";
import type { EndpointTraffic } from "../explain/report.ts";
import { readTraffic } from "../explain/traffic.ts";
import { hostPort } from "../model/cluster/names.ts";
import { FatalError, messageIfFatal } from "../model/values/errors.ts";
import { count, grouped } from "../model/values/text.ts";
import { askExplanation } from "./client.ts";
import type { QueryContext } from "./context.ts";
import { follow, SCROLL_HELP } from "./follow.ts";
import { type Cell, colourTable, type Paint, renderReport } from "./output.ts";

/** The version of the format; it changes only if a field goes or changes its meaning. */
const TOP_VERSION = 1;

/** Milliseconds between two listings. */
const PAUSE = 2_000;

export interface TopReport {
  readonly topVersion: typeof TOP_VERSION;
  readonly node: string;
  readonly service: string;
  /** The open connections of all endpoints. */
  readonly open: number;
  /** The one with the most open connections first. */
  readonly endpoints: readonly {
    readonly protocol: string;
    readonly address: string;
    readonly port: number;
    /** `""`: not known. */
    readonly endpointNode: string;
    /** `used`, or why it gets no new connections; `gone`: no EndpointSlice has it. */
    readonly state: string;
    readonly open: number;
    readonly unanswered: number;
    /** Of all open connections, 0 to 1. */
    readonly share: number;
  }[];
}

/** Shows the connections of a Service. @returns 0; 1 if the connections cannot be read */
export async function topService(
  { output, namespace, once, service: question }: CommandOf<"top">,
  context: QueryContext,
): Promise<number> {
  const { runtime, logger } = context;
  const render = (report: TopReport) => renderReport(report, { output, runtime, table: topTable });
  const ask = async () =>
    await reportOf(await askExplanation(context, { question, namespace, from: "" }), context);
  const isLive = !once && output === "table" && runtime.isTerminal();
  const layout = { fixed: 2, wraps: false, help: SCROLL_HELP };
  const problem = (message: string) => message;
  try {
    const first = await ask();
    if (!isLive) await runtime.print(render(first));
    else await follow(first, { ...context, render, ask, problem, pause: PAUSE, isLive, layout });
    return 0;
  } catch (error) {
    logger.error(messageIfFatal(error));
    return 1;
  }
}

async function reportOf({ report, about }: Answer, { runtime }: QueryContext): Promise<TopReport> {
  if (report.kind !== "service" || report.ports.length === 0) {
    throw new FatalError(`${report.kind === "service" ? report.service : "it"} has no rules here`);
  }
  const options = { ...runtime, ownAddresses: runtime.addresses(), isAsked: false };
  const { traffic } = await readTraffic(about.ports, options);
  if (traffic.reason !== "") {
    throw new FatalError(`the connections were not counted: ${traffic.reason}`);
  }
  const counted = new Map(traffic.endpoints.map((each) => [keyOf(each), each]));
  const open = traffic.endpoints.reduce((sum, each) => sum + each.open, 0);
  const found = traffic.endpoints.map(({ protocol, address, port }) => (
    { protocol, address, port, endpointNode: "", state: "gone" }
  ));
  const known = report.ports.flatMap(({ protocol, endpoints }) =>
    endpoints.flatMap(({ address, port, node, code: state }) =>
      port === null ? [] : [{ protocol, address, port, endpointNode: node ?? "", state }]
    )
  );
  const endpoints = new Map([...found, ...known].map((each) => [keyOf(each), each])).entries()
    .map(([key, each]) => {
      const { open: now = 0, unanswered = 0 } = counted.get(key) ?? {};
      const share = open === 0 ? 0 : Math.round(1_000 * now / open) / 1_000;
      return { ...each, open: now, unanswered, share };
    });
  return {
    topVersion: TOP_VERSION,
    node: report.node,
    service: report.service,
    open,
    endpoints: [...endpoints].sort((a, b) => b.open - a.open),
  };
}

function keyOf(
  { protocol, address, port }: Pick<EndpointTraffic, "protocol" | "address" | "port">,
): string {
  return `${protocol} ${hostPort(address, port)}`;
}

/** States of endpoints that are to lose their connections. */
const LEAVING: readonly string[] = ["terminating", "not-ready", "gone"];

function topTable({ node, service, open, endpoints }: TopReport, paint: Paint): string {
  const rows = endpoints.map((each): Cell[] => {
    const isLeft = LEAVING.includes(each.state);
    const state = isLeft && each.open > 0
      ? `${each.state}: ${grouped(each.open)} still open, not drained yet`
      : each.state;
    return [
      grouped(each.open).padStart(5),
      `${Math.round(100 * each.share)}%`.padStart(5),
      grouped(each.unanswered).padStart(10),
      `${hostPort(each.address, each.port)}/${each.protocol}`,
      each.endpointNode,
      { text: state, colour: isLeft ? "yellow" : "green" },
    ];
  });
  const head = [" OPEN", "SHARE", "UNANSWERED", "ENDPOINT", "NODE", "STATE"];
  return `${service}: ${count(open, "open connection")} through ${node}\n\n` +
    colourTable([head, ...rows], { paint });
}

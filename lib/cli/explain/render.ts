/** Renders the answers of `explain` as text for people. */
import { describeScheduler } from "../../model/cluster/scheduler.ts";
import { capitalized, count, plain } from "../../model/values/text.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { changeText } from "../../observe/human.ts";
import { type Cell, type Colour, colourTable, type Paint, renderFindings } from "../output.ts";
import { endpointName } from "../../explain/endpoints.ts";
import { probedPlace } from "../../explain/probe.ts";
import { describeWorking } from "../../explain/service_report.ts";
import {
  type EndpointReport,
  type ExplainFinding,
  type FrontendReport,
  type KernelReport,
  type Outcome,
  type PacketReport,
  PASSIVE,
  type PortReport,
  type ProbedConnection,
  type ProbeReport,
  type ServiceReport,
  type TraceReport,
  type TrackedConnection,
} from "../../explain/report.ts";

interface RenderOptions {
  readonly paint: Paint;
  /** True to show the kernel's correct entries, too. */
  readonly isVerbose: boolean;
  /** True for all changes that the daemon remembers, else for the last ones. */
  readonly hasHistory?: boolean;
}

const VERDICTS: Readonly<
  Record<Exclude<ServiceReport["verdict"], "delivered">, readonly [Colour, string]>
> = {
  broken: ["red", "is broken here"],
  "not-proxied": ["yellow", "has no rules"],
  "not-found": ["red", "is not there"],
};

/** The number of changes without `--history`. */
const LAST_CHANGES = 5;

/** Renders a page about the Service, from the objects to the kernel. */
export function renderService(report: ServiceReport, options: RenderOptions): string {
  const { paint } = options;
  const { service, selector, type, node, mode, findings, ports, stickyClients } = report;
  if (report.verdict === "not-found") {
    const hints = findings.map(({ hint }) => `  ${paint(`try: ${hint}`, "faint")}\n`);
    return `${paint(report.summary, "red")}\n${hints.join("")}`;
  }
  const works = describeWorking(report);
  const [colour, verdict] = report.verdict === "delivered"
    ? [works === "works here" ? "green" : "yellow", works] as const
    : VERDICTS[report.verdict];
  const facts = [type, selector && `selector ${selector}`].filter((fact) => fact !== "");
  const about = facts.length === 0 ? "" : ` (${plain(facts.join(", "))})`;
  const zone = report.zone && ` in zone ${report.zone}`;
  const head = `${paint(`Service ${service}`, "bold")} ${paint(verdict, colour)}${about}\n` +
    `On node ${node}${zone}, ${mode} mode\n${statusLine(report)}`;
  return joined([
    findings.length === 0 ? head : `${head}\n${findingsText(findings, paint)}`,
    ...ports.map((port) => renderPort(port, { paint, traffic: report.traffic })),
    report.traffic?.reason ? `Connections were not counted: ${plain(report.traffic.reason)}\n` : "",
    renderProbe(report, paint),
    ports.length === 0 ? "" : renderKernel(report.kernel, options),
    stickyClients.length === 0
      ? ""
      : `${paint("Sticky clients", "bold")} ${stickyClients.length}\n` + table([
        ["CLIENT", "STAYS ON", "FOR", "PORT"],
        ...stickyClients.map(({ client, address, port, expiresSeconds, servicePort }) => [
          client,
          hostPort(address, port),
          `${expiresSeconds} s`,
          servicePort,
        ]),
      ], paint),
    renderConnections(report.connections, paint),
    renderHistory(report, options),
  ]);
}

function renderHistory(
  { history }: ServiceReport,
  { paint, hasHistory = false }: RenderOptions,
): string {
  const shown = history.slice(0, hasHistory ? Infinity : LAST_CHANGES);
  if (shown.length === 0) return hasHistory ? "No change since the daemon started\n" : "";
  const more = history.length - shown.length;
  return `${paint("Last changes", "bold")}${more > 0 ? `, ${more} more with --history` : ""}\n` +
    shown.map((each) => `  ${plain(changeText(each))}\n`).join("");
}

/** Renders the results of the probe. */
function renderProbe({ probe, node }: ServiceReport, paint: Paint): string {
  if (probe === null) return "";
  const { connections } = probe;
  const open = connections.filter(({ result }) => result === "open").length;
  return `${paint("Probe", "bold")} from node ${node}: ${open} of ${connections.length} open; ` +
    `network policies may treat pods differently\n${probeTable(connections, paint)}${
      notProbedText(probe)
    }`;
}

/** Says what a probe left out. */
export function notProbedText(
  { notProbed, omitted }: Pick<ProbeReport, "notProbed" | "omitted">,
): string {
  return notProbed.map((protocol) => `  ${protocol} was not probed\n`).join("") +
    (omitted > 0 ? `  ${count(omitted, "more connection")} not tried\n` : "");
}

export function probeTable(connections: readonly ProbedConnection[], paint: Paint): string {
  return table([
    ["ADDRESS", "KIND", "RESULT"],
    ...connections.map((each): Cell[] => [
      probedPlace(each),
      each.type === "endpoint" && !each.isExpected ? "endpoint, not used" : each.type,
      {
        text: each.text,
        colour: each.result === "open" ? "green" : each.isExpected ? "red" : "yellow",
      },
    ]),
  ], paint);
}

/** Joins the parts of a page with empty lines. */
function joined(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("\n");
}

function table(rows: readonly (readonly Cell[])[], paint: Paint): string {
  return colourTable(rows, { paint, indent: "  " });
}

function statusLine({ status }: ServiceReport): string {
  if (!status) return "";
  const { state, since, sync, reason } = status;
  const why = state === "pending" || state === "rejected" ? `${state}: ${reason}; ` : "";
  const held = sync
    ? `in the kernel since ${since}, written by ${sync.kind} sync ${sync.number}`
    : "not in the kernel";
  return `${capitalized(why + held)}\n`;
}

const TOPOLOGY: Readonly<Record<PortReport["topology"], string>> = {
  "": "",
  PreferSameNode: "endpoints hinted for this node",
  PreferSameZone: "endpoints hinted for this zone",
};

function renderPort(
  port: PortReport,
  { paint, traffic }: Pick<ServiceReport, "traffic"> & { readonly paint: Paint },
): string {
  const { name, protocol, family, targetPort, affinitySeconds, scheduler, sourceRanges } = port;
  const target = targetPort && `, targetPort ${plain(targetPort)}`;
  const notes = [
    TOPOLOGY[port.topology],
    affinitySeconds > 0 ? `clients stay for ${affinitySeconds} s` : "",
    scheduler ? describeScheduler(scheduler) : "",
    sourceRanges.length > 0 ? `sources ${sourceRanges.join(", ")}` : "",
  ].filter((note) => note !== "").map((note) => `; ${note}`).join("");
  const title = `${paint(`Port ${name}`, "bold")} ${port.port}/${protocol}, IPv${family}`;
  const frontends = `${title}${target}${notes}\n` + table([
    ["ADDRESS", "KIND", "POLICY", "FROM PODS", "FROM THIS NODE", "FROM OUTSIDE"],
    ...port.frontends.map((frontend) => frontendRow(frontend, port)),
  ], paint);
  const isCounted = traffic?.reason === "";
  const counts = (endpoint: EndpointReport): Cell[] => {
    if (!isCounted) return [];
    const { open = 0, unanswered = 0 } =
      traffic.endpoints.find((each) =>
        each.protocol === protocol && each.address === endpoint.address &&
        each.port === endpoint.port
      ) ?? {};
    const isProblem = unanswered > 0 && protocol === "tcp";
    return [`${open}`, isProblem ? red(`${unanswered}`) : `${unanswered}`];
  };
  const endpoints = [
    ["ENDPOINT", "NODE", "USED", ...isCounted ? ["OPEN", "UNANSWERED"] : [], "WHY"],
    ...port.endpoints.map((each) => {
      const cells = endpointRow(each);
      return [...cells.slice(0, 3), ...counts(each), ...cells.slice(3)];
    }),
  ];
  return frontends + (table(endpoints, paint) || "  no endpoints\n");
}

function frontendRow(
  { type, addresses, port, policy, heldBy, outcomes }: FrontendReport,
  { droppedBy }: PortReport,
): Cell[] {
  const cells = heldBy !== null
    ? [red(`belongs to ${heldBy}`)]
    : outcomes.length === 0
    ? [red("open on none of this node's addresses")]
    : outcomes.map((outcome) =>
      droppedBy?.senders.includes(outcome.sender) && outcome.verdict === "dnat"
        ? red(`dropped: ${droppedBy.table}`)
        : outcomeCell(outcome)
    );
  const [address] = addresses;
  const place = address !== undefined && addresses.length === 1
    ? hostPort(address, port)
    : `*:${port}`;
  return [place, type, policy, ...cells];
}

function red(text: string): Cell {
  return { text, colour: "red" };
}

/** Describes a verdict in a few words. */
function outcomeCell({ verdict, code, endpoints, masquerade, conditions }: Outcome): Cell {
  const many = count(endpoints.length, "endpoint");
  switch (verdict) {
    case "dnat": {
      const how = masquerade?.applies ? ", masqueraded" : "";
      const but = conditions.length > 0 ? ", some sources" : "";
      return { text: `${many}${how}${but}`, colour: "green" };
    }
    case "none":
      return code === "localhost-listener"
        ? { text: `${many}, by a listener`, colour: "green" }
        : { text: "left alone", colour: "yellow" };
    case "reject":
    case "drop": {
      const why = code === "no-local-endpoints" ? "none here" : code.replaceAll("-", " ");
      return red(`${PASSIVE[verdict]}: ${why}`);
    }
  }
}

function endpointRow(endpoint: EndpointReport): Cell[] {
  const { usedFor, code, reason, node } = endpoint;
  const used: Cell = usedFor.length === 0
    ? red("no")
    : { text: usedFor.join(", "), colour: code === "used" ? "green" : "yellow" };
  return [endpointName(endpoint), node ?? "-", used, reason === "used" ? "" : reason];
}

/** Renders each finding with its hint. */
export function findingsText(findings: readonly ExplainFinding[], paint: Paint): string {
  const shown = findings.map(({ severity, code, message, hint }) => ({
    severity,
    id: code,
    what: message,
    remedy: hint && `try: ${hint}`,
  }));
  return renderFindings(shown, paint);
}

/** The most correct entries that are shown. All different entries are shown. */
const MOST_SAME = 40;

/** Renders the desired entries beside the kernel's entries. */
function renderKernel(
  { state, reason, entries }: KernelReport,
  { paint, isVerbose }: RenderOptions,
): string {
  const different = entries.filter((each) => each.state !== "same");
  const same = isVerbose ? entries.filter((each) => each.state === "same") : [];
  const more = same.length - MOST_SAME;
  const titles: Readonly<Record<KernelReport["state"], string>> = {
    same: `holds all ${entries.length} entries`,
    different: `${different.length} of ${entries.length} entries differ`,
    empty: "has no rules of signpost",
    unread: `not read: ${reason}`,
  };
  const colour = state === "same" ? "green" : state === "unread" ? "yellow" : "red";
  return `${paint("Kernel", "bold")} ${paint(plain(titles[state]), colour)}\n` + table([
    ["", "WHERE", "KEY", "DESIRED", "THE KERNEL HAS"],
    ...[...different, ...same.slice(0, MOST_SAME)].map((entry): Cell[] => [
      { text: entry.state, colour: entry.state === "same" ? "green" : "red" },
      entry.in,
      entry.key,
      entry.desired,
      entry.held || (entry.state === "missing" ? "nothing" : "there"),
    ]),
  ], paint) + (more > 0 ? `  and ${more} more correct entries\n` : "");
}

/** Renders conntrack entries. */
function renderConnections(
  connections: readonly TrackedConnection[] | null,
  paint: Paint,
): string {
  if (connections === null) return "";
  return `${paint("Conntrack entries", "bold")} ${connections.length}\n` + table([
    ["", "CLIENT", "TO", "SENT TO", "STATE"],
    ...connections.map(({ protocol, source, destination, isCurrent, endpoint, flags }): Cell[] => [
      protocol,
      source,
      destination,
      isCurrent ? endpoint : { text: `${endpoint} (no endpoint now)`, colour: "yellow" },
      flags.join(","),
    ]),
  ], paint);
}

const VERDICT_COLOURS: Readonly<Record<Outcome["verdict"], Colour>> = {
  dnat: "green",
  reject: "red",
  drop: "red",
  none: "yellow",
};

const SENDERS = { pod: "a pod", node: "this node", external: "outside" } as const;

/** Renders the facts about the packet, then the entries of the kernel. */
export function renderPacket(report: PacketReport, options: RenderOptions): string {
  const { paint } = options;
  const { packet, outcome, stickyEndpoint, kernel } = report;
  const { verdict, servicePort, affinitySeconds, scheduler, acceleratedAfter } = outcome;
  const isOtherwise = kernel.state === "different" || kernel.state === "empty" ||
    report.droppedBy !== null;
  const colour = isOtherwise && verdict === "dnat"
    ? "red"
    : outcome.code === "localhost-listener"
    ? "green"
    : VERDICT_COLOURS[verdict];
  const to = `${hostPort(packet.address, packet.port)}/${packet.protocol}`;
  const title = paint(`Packet from ${packet.source ?? SENDERS[packet.sender]} to ${to}`, "bold");
  const lines: readonly (readonly [string, string])[] = [
    ["sender", `${SENDERS[packet.sender]} (${packet.senderReason})`],
    ["service", servicePort === null ? "" : `${servicePort}, its ${outcome.frontend}`],
    ["why", outcome.reason],
    ["rule", outcome.rule ?? ""],
    ["source", masqueradeText(outcome)],
    ["but", outcome.conditions.join("; ")],
    ["affinity", affinitySeconds > 0 ? `clients stay for ${affinitySeconds} s` : ""],
    ["scheduler", scheduler ? describeScheduler(scheduler) : ""],
    [
      "offload",
      acceleratedAfter === undefined
        ? ""
        : `the fast path after ${acceleratedAfter} packets, past later rules`,
    ],
    ["stays on", stickyEndpoint ? hostPort(stickyEndpoint.address, stickyEndpoint.port) : ""],
  ];
  const facts = lines.filter(([, text]) => text !== "")
    .map(([name, text]) => `  ${paint(name.padEnd(8), "faint")} ${plain(text)}\n`).join("");
  const endpoints = outcome.endpoints.map(({ address, port, probability, masqueraded }) => [
    hostPort(address, port),
    `${(probability * 100).toFixed(1)} %`,
    masqueraded ? "yes" : "no",
  ]);
  return joined([
    `${title} ${paint(report.summary, colour)}\n` +
    `On node ${report.node}, ${report.mode} mode\n\n${facts}`,
    table([["ENDPOINT", "CHANCE", "MASQUERADED"], ...endpoints], paint),
    findingsText(report.findings, paint),
    report.trace ? renderTrace(report.trace, paint) : "",
    servicePort === null ? "" : renderKernel(kernel, options),
    renderConnections(report.connections, paint),
  ]);
}

function masqueradeText({ masquerade }: Outcome): string {
  if (!masquerade) return "";
  const { applies, code, reason } = masquerade;
  const how = applies ? "masqueraded:" : code === "hairpin" ? "masqueraded" : "kept:";
  return `${how} ${reason}`;
}

function renderTrace(trace: TraceReport, paint: Paint): string {
  const { verdict, destination, masqueraded, hasLeft, agrees, steps } = trace;
  const hasNoRoute = verdict === "dnat" && !hasLeft;
  const seen = hasNoRoute
    ? `did not leave this node${destination && `, on its way to ${destination}`}`
    : verdict === "dnat"
    ? `sent to ${destination}${masqueraded ? ", masqueraded" : ""}`
    : verdict === "none"
    ? "left alone"
    : verdict === "lost"
    ? "not seen"
    : PASSIVE[verdict];
  const colour = agrees && !hasNoRoute ? "green" : "red";
  return `${paint("Real packet", "bold")} ${paint(seen, colour)}\n` + table([
    ["CHAIN", "RULE", "VERDICT"],
    ...steps.map(({ table, chain, type, text, verdict }) => [
      `${table} ${chain}`,
      type === "rule" ? text : `(${type})`,
      verdict,
    ]),
  ], paint);
}

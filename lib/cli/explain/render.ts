/** Renders the answers of `explain` as text for people. */
import { describeScheduler } from "../../model/cluster/scheduler.ts";
import { capitalized, count, plain } from "../../model/values/text.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { type Cell, type Colour, colourTable, type Paint, renderFindings } from "../output.ts";
import { endpointName } from "../../explain/endpoints.ts";
import {
  type EndpointReport,
  type Finding,
  type FrontendReport,
  type KernelReport,
  type Outcome,
  type PacketReport,
  PASSIVE,
  type PortReport,
  type ServiceReport,
  type TraceReport,
  type TrackedConnection,
} from "../../explain/report.ts";

const VERDICTS: Readonly<Record<ServiceReport["verdict"], readonly [Colour, string]>> = {
  delivered: ["green", "works here"],
  broken: ["red", "is broken here"],
  "not-proxied": ["yellow", "has no rules"],
};

/** Sets how a report is shown. */
export interface RenderOptions {
  readonly paint: Paint;
  /** Also shows the kernel's correct entries. */
  readonly isVerbose: boolean;
}

/** Renders a page about the Service, from the objects to the kernel. */
export function renderService(report: ServiceReport, options: RenderOptions): string {
  const { paint } = options;
  const isDropped = report.ports.some(({ droppedBy }) => droppedBy !== null);
  const [colour, verdict] = isDropped && report.verdict === "delivered"
    ? ["yellow", "works here, but not from outside"] as const
    : VERDICTS[report.verdict];
  const facts = [report.type, report.selector === "" ? "" : `selector ${report.selector}`]
    .filter((fact) => fact !== "");
  const zone = report.zone === "" ? "" : ` in zone ${report.zone}`;
  const head = `${paint(`Service ${report.service}`, "bold")} ${paint(verdict, colour)}` +
    `${facts.length === 0 ? "" : ` (${plain(facts.join(", "))})`}\n` +
    `On node ${report.node}${zone}, ${report.mode} mode\n` +
    statusLine(report);
  const parts = [
    head + (report.findings.length === 0 ? "" : `\n${findingsText(report.findings, paint)}`),
    ...report.ports.map((port) => renderPort(port, paint)),
    ...report.ports.length === 0 ? [] : [renderKernel(report.kernel, options)],
    renderSticky(report, paint),
    renderConnections(report.connections, paint),
  ];
  return parts.filter((part) => part !== "").join("\n");
}

function statusLine({ status }: ServiceReport): string {
  if (!status) return "";
  const { state, since, sync, reason } = status;
  const held = sync
    ? `in the kernel since ${since}, written by ${sync.kind} sync ${sync.number}`
    : "not in the kernel";
  const parts = state === "pending" || state === "rejected"
    ? [`${state}: ${reason}`, held]
    : [held];
  return `${capitalized(parts.join("; "))}\n`;
}

function renderPort(port: PortReport, paint: Paint): string {
  const target = port.targetPort === "" ? "" : `, targetPort ${plain(port.targetPort)}`;
  const notes = [
    ...port.topology === "" ? [] : [TOPOLOGY[port.topology]],
    ...port.affinitySeconds === 0 ? [] : [`clients stay for ${port.affinitySeconds} s`],
    ...port.scheduler === null ? [] : [describeScheduler(port.scheduler)],
    ...port.sourceRanges.length === 0 ? [] : [`sources ${port.sourceRanges.join(", ")}`],
  ];
  return `${paint(`Port ${port.name}`, "bold")} ${port.port}/${port.protocol}, IPv${port.family}` +
    `${target}${notes.length === 0 ? "" : `; ${notes.join("; ")}`}\n` +
    colourTable([
      ["ADDRESS", "KIND", "POLICY", "FROM PODS", "FROM THIS NODE", "FROM OUTSIDE"],
      ...port.frontends.map((frontend) => frontendRow(frontend, port)),
    ], { paint, indent: "  " }) +
    (port.endpoints.length === 0 ? "  no endpoints\n" : colourTable([
      ["ENDPOINT", "NODE", "USED", "WHY"],
      ...port.endpoints.map(endpointRow),
    ], { paint, indent: "  " }));
}

const TOPOLOGY: Readonly<Record<Exclude<PortReport["topology"], "">, string>> = {
  PreferSameNode: "endpoints hinted for this node",
  PreferSameZone: "endpoints hinted for this zone",
};

function frontendRow(
  { type, address, port, policy, heldBy, outcomes }: FrontendReport,
  { droppedBy }: PortReport,
): Cell[] {
  const name = address === null ? `*:${port}` : hostPort(address, port);
  if (heldBy !== null) {
    return [name, type, policy, { text: `belongs to ${heldBy}`, colour: "red" }];
  }
  if (outcomes.length === 0) {
    return [name, type, policy, {
      text: "no address of this node takes node ports",
      colour: "red",
    }];
  }
  return [
    name,
    type,
    policy,
    ...outcomes.map((outcome) =>
      droppedBy && outcome.sender === "external" && outcome.verdict === "dnat"
        ? { text: `dropped: ${droppedBy.table}`, colour: "red" } as const
        : outcomeCell(outcome)
    ),
  ];
}

/** Shows a verdict in a few words. */
function outcomeCell(outcome: Outcome): Cell {
  const { verdict, code, endpoints, masquerade, conditions } = outcome;
  switch (verdict) {
    case "dnat": {
      const how = masquerade?.applies ? ", masqueraded" : "";
      return {
        text: `${count(endpoints.length, "endpoint")}${how}${
          conditions.length > 0 ? ", some sources" : ""
        }`,
        colour: "green",
      };
    }
    case "none":
      return code === "localhost-listener"
        ? { text: `${count(endpoints.length, "endpoint")}, by a listener`, colour: "green" }
        : { text: "left alone", colour: "yellow" };
    case "reject":
    case "drop": {
      const why = code === "no-local-endpoints" ? "none here" : code.replaceAll("-", " ");
      return { text: `${PASSIVE[verdict]}: ${why}`, colour: "red" };
    }
  }
}

function endpointRow(endpoint: EndpointReport): Cell[] {
  const { usedFor, code, reason, node } = endpoint;
  const isUsed = usedFor.length > 0;
  const colour: Colour = isUsed ? (code === "used" ? "green" : "yellow") : "red";
  return [
    endpointName(endpoint),
    node ?? "-",
    { text: isUsed ? usedFor.join(", ") : "no", colour },
    reason === "used" ? "" : reason,
  ];
}

function renderSticky({ stickyClients }: ServiceReport, paint: Paint): string {
  if (stickyClients.length === 0) return "";
  const rows: Cell[][] = stickyClients.map((each) => [
    each.client,
    hostPort(each.address, each.port),
    `${each.expiresSeconds} s`,
    each.servicePort,
  ]);
  return `${paint("Sticky clients", "bold")} ${rows.length}\n` +
    colourTable([["CLIENT", "STAYS ON", "FOR", "PORT"], ...rows], { paint, indent: "  " });
}

/** Renders each finding with its hint. */
function findingsText(findings: readonly Finding[], paint: Paint): string {
  const shown = findings.map(({ severity, code, message, hint }) => ({
    severity,
    id: code,
    what: message,
    remedy: hint && `try: ${hint}`,
  }));
  return renderFindings(shown, paint);
}

/** The number of correct entries that are shown. Different entries are all shown. */
const MAX_SAME = 40;

/** Renders the desired entries and those that the kernel holds. */
function renderKernel(
  { state, reason, entries }: KernelReport,
  { paint, isVerbose }: RenderOptions,
): string {
  const different = entries.filter((each) => each.state !== "same");
  const same = isVerbose ? entries.filter((each) => each.state === "same") : [];
  const titles: Readonly<Record<KernelReport["state"], string>> = {
    same: `holds all ${entries.length} entries`,
    different: `${different.length} of ${entries.length} entries differ`,
    empty: "holds no rules of signpost's",
    unread: `not read: ${reason}`,
  };
  const colour = state === "same" ? "green" : state === "unread" ? "yellow" : "red";
  const rows: Cell[][] = [...different, ...same.slice(0, MAX_SAME)].map((entry) => [
    { text: entry.state, colour: entry.state === "same" ? "green" : "red" },
    entry.in,
    entry.key,
    entry.desired,
    entry.held || (entry.state === "missing" ? "nothing" : "there"),
  ]);
  const more = same.length - MAX_SAME;
  return `${paint("Kernel", "bold")} ${paint(plain(titles[state]), colour)}\n` +
    colourTable([["", "WHERE", "KEY", "DESIRED", "THE KERNEL HAS"], ...rows], {
      paint,
      indent: "  ",
    }) +
    (more > 0 ? `  and ${more} more correct entries\n` : "");
}

/** Prints conntrack entries. */
function renderConnections(
  connections: readonly TrackedConnection[] | null,
  paint: Paint,
): string {
  if (connections === null) return "";
  const rows: Cell[][] = connections.map((each) => [
    each.protocol,
    each.source,
    each.destination,
    each.isCurrent
      ? each.endpoint
      : { text: `${each.endpoint} (no endpoint now)`, colour: "yellow" },
    each.flags.join(","),
  ]);
  const table = colourTable([["", "CLIENT", "TO", "SENT TO", "STATE"], ...rows], {
    paint,
    indent: "  ",
  });
  return `${paint("Conntrack entries", "bold")} ${rows.length}\n${table}`;
}

const VERDICT_COLOURS: Readonly<Record<Outcome["verdict"], Colour>> = {
  dnat: "green",
  reject: "red",
  drop: "red",
  none: "yellow",
};

const SENDERS = { pod: "a pod", node: "this node", external: "outside" } as const;

/** Renders a few lines about the packet, then the entries of the kernel. */
export function renderPacket(report: PacketReport, options: RenderOptions): string {
  const { paint } = options;
  const { packet, outcome, stickyEndpoint, summary, kernel } = report;
  const isOtherwise = kernel.state === "different" || kernel.state === "empty" ||
    report.droppedBy !== null;
  const colour = isOtherwise && outcome.verdict === "dnat"
    ? "red"
    : outcome.code === "localhost-listener"
    ? "green"
    : VERDICT_COLOURS[outcome.verdict];
  const to = `${hostPort(packet.address, packet.port)}/${packet.protocol}`;
  const from = packet.source === null ? SENDERS[packet.sender] : packet.source;
  const service = outcome.servicePort === null
    ? ""
    : `${outcome.servicePort}, its ${outcome.frontend}`;
  const lines: readonly (readonly [string, string])[] = [
    ["sender", `${SENDERS[packet.sender]} (${packet.senderReason})`],
    ["service", service],
    ["why", outcome.reason],
    ["rule", outcome.rule ?? ""],
    ["source", outcome.masquerade ? masqueradeText(outcome) : ""],
    ["but", outcome.conditions.join("; ")],
    [
      "affinity",
      outcome.affinitySeconds > 0 ? `clients stay for ${outcome.affinitySeconds} s` : "",
    ],
    ["scheduler", outcome.scheduler ? describeScheduler(outcome.scheduler) : ""],
    [
      "offload",
      outcome.acceleratedAfter === undefined
        ? ""
        : `the fast path after ${outcome.acceleratedAfter} packets, past later rules`,
    ],
    ["stays on", stickyEndpoint ? hostPort(stickyEndpoint.address, stickyEndpoint.port) : ""],
  ];
  const head = `${paint(`Packet from ${from} to ${to}`, "bold")} ${paint(summary, colour)}\n` +
    `On node ${report.node}, ${report.mode} mode\n\n` +
    lines.filter(([, text]) => text !== "")
      .map(([name, text]) => `  ${paint(name.padEnd(9), "faint")}${plain(text)}\n`).join("");
  const parts = [
    head,
    renderEndpoints(outcome, paint),
    findingsText(report.findings, paint),
    report.trace ? renderTrace(report.trace, paint) : "",
    outcome.servicePort === null ? "" : renderKernel(kernel, options),
    renderConnections(report.connections, paint),
  ];
  return parts.filter((part) => part !== "").join("\n");
}

function masqueradeText({ masquerade }: Outcome): string {
  if (masquerade?.applies) return `masqueraded: ${masquerade.reason}`;
  const how = masquerade?.code === "hairpin" ? "masqueraded" : "kept:";
  return `${how} ${masquerade?.reason}`;
}

function renderEndpoints({ endpoints }: Outcome, paint: Paint): string {
  const rows: Cell[][] = endpoints.map(({ address, port, probability, masqueraded }) => [
    hostPort(address, port),
    `${(probability * 100).toFixed(1)} %`,
    masqueraded ? "yes" : "no",
  ]);
  return colourTable([["ENDPOINT", "CHANCE", "MASQUERADED"], ...rows], { paint, indent: "  " });
}

function renderTrace(trace: TraceReport, paint: Paint): string {
  const { verdict, destination, masqueraded, hasLeft, agrees, steps } = trace;
  const isGood = agrees && (verdict !== "dnat" || hasLeft);
  const seen = verdict === "dnat" && !hasLeft
    ? `did not leave this node${destination === "" ? "" : `, on its way to ${destination}`}`
    : verdict === "dnat"
    ? `sent to ${destination}${masqueraded ? ", masqueraded" : ""}`
    : verdict === "none"
    ? "left alone"
    : verdict === "lost"
    ? "not seen"
    : PASSIVE[verdict];
  const rows: Cell[][] = steps.map(({ table, chain, type, text, verdict }) => [
    `${table} ${chain}`,
    type === "rule" ? text : `(${type})`,
    verdict,
  ]);
  return `${paint("Real packet", "bold")} ${paint(seen, isGood ? "green" : "red")}\n` +
    colourTable([["CHAIN", "RULE", "VERDICT"], ...rows], { paint, indent: "  " });
}

/**
 * The answer about a Service as text for people.
 *
 * @module
 */
import { describeScheduler } from "../../model/cluster/scheduler.ts";
import { count, plain } from "../../model/values/text.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { type Cell, type Colour, colourTable, type Paint } from "../output.ts";
import { endpointName, type EndpointReport } from "../../explain/service/endpoints.ts";
import type { Outcome } from "../../explain/packet/outcome.ts";
import { renderConnections, renderFindings, renderKernel } from "./render_findings.ts";
import type { FrontendReport, PortReport, ServiceReport } from "../../explain/report.ts";

const VERDICTS: Readonly<Record<ServiceReport["verdict"], readonly [Colour, string]>> = {
  delivered: ["green", "works here"],
  broken: ["red", "is broken here"],
  "not-proxied": ["yellow", "has no rules"],
};

/** A page about the Service, from the objects to the kernel. */
export function renderService(report: ServiceReport, paint: Paint): string {
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
    head + (report.findings.length === 0 ? "" : `\n${renderFindings(report.findings, paint)}`),
    ...report.ports.map((port) => renderPort(port, paint)),
    ...report.ports.length === 0 ? [] : [renderKernel(report.kernel, { paint })],
    renderSticky(report, paint),
    renderConnections(report.connections, paint),
  ];
  return parts.filter((part) => part !== "").join("\n");
}

function statusLine({ status }: ServiceReport): string {
  if (status?.sync) {
    const { since, sync } = status;
    return `In the kernel since ${since}, written by ${sync.kind} sync ${sync.number}\n`;
  }
  return "";
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

/** A verdict in a few words. */
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
      return { text: `${verdict === "drop" ? "dropped" : "rejected"}: ${why}`, colour: "red" };
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

/**
 * The answer about a packet as text for people.
 *
 * @module
 */
import { describeScheduler } from "../../model/cluster/scheduler.ts";
import { plain } from "../../model/values/text.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { type Cell, type Colour, colourTable, type Paint } from "../output.ts";
import type { Outcome } from "../../explain/packet/outcome.ts";
import { renderConnections, renderFindings, renderKernel } from "./render_findings.ts";
import type { PacketReport } from "../../explain/report.ts";
import type { TraceReport } from "../../explain/packet/trace.ts";

const COLOURS: Readonly<Record<Outcome["verdict"], Colour>> = {
  dnat: "green",
  reject: "red",
  drop: "red",
  none: "yellow",
};

const SENDERS = { pod: "a pod", node: "this node", external: "outside" } as const;

/** A few lines about the packet, then what the kernel holds. */
export function renderPacket(report: PacketReport, paint: Paint): string {
  const { packet, outcome, stickyEndpoint, summary, kernel } = report;
  const isOtherwise = kernel.state === "different" || kernel.state === "empty" ||
    report.droppedBy !== null;
  const colour = isOtherwise && outcome.verdict === "dnat"
    ? "red"
    : outcome.code === "localhost-listener"
    ? "green"
    : COLOURS[outcome.verdict];
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
    ["stays on", stickyEndpoint ? hostPort(stickyEndpoint.address, stickyEndpoint.port) : ""],
  ];
  const head = `${paint(`Packet from ${from} to ${to}`, "bold")} ${paint(summary, colour)}\n` +
    `On node ${report.node}, ${report.mode} mode\n\n` +
    lines.filter(([, text]) => text !== "")
      .map(([name, text]) => `  ${paint(name.padEnd(9), "faint")}${plain(text)}\n`).join("");
  const parts = [
    head,
    renderEndpoints(outcome, paint),
    renderFindings(report.findings, paint),
    report.trace ? renderTrace(report.trace, paint) : "",
    outcome.servicePort === null ? "" : renderKernel(kernel, { paint, onlyDifferent: true }),
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
    : `${verdict}ed`.replace("droped", "dropped");
  const rows: Cell[][] = steps.map(({ table, chain, type, text, verdict }) => [
    `${table} ${chain}`,
    type === "rule" ? text : `(${type})`,
    verdict,
  ]);
  return `${paint("Real packet", "bold")} ${paint(seen, isGood ? "green" : "red")}\n` +
    colourTable([["CHAIN", "RULE", "VERDICT"], ...rows], { paint, indent: "  " });
}

/** Makes the report about a packet from the desired state and the kernel. */
import type { PacketTarget, Sender } from "../config/command.ts";
import { serviceOf } from "../model/cluster/names.ts";
import { type DesiredServicePort, usedEndpoints } from "../model/kernel/desired.ts";
import { cidrContains, familyOf } from "../model/values/address.ts";
import {
  aboutService,
  clusterIPEndpoints,
  dropOf,
  dropsOf,
  error,
  fromNode,
  isCertain,
  isLoss,
  lossesTo,
  sortFindings,
  warning,
} from "./finding.ts";
import { type KernelPart, withKernel } from "./kernel.ts";
import {
  explainSent,
  isLocalPod,
  type Known,
  portsFor,
  undetectedPods,
  type World,
} from "./packet.ts";
import {
  EXPLAIN_VERSION,
  type ExplainFinding,
  type KernelReport,
  NOT_READ,
  type Outcome,
  type PacketReport,
  PASSIVE,
  type TraceReport,
} from "./report.ts";

/** A packet, its sender and how that is known, and its outcome. */
interface AskedPacket {
  readonly target: PacketTarget;
  readonly sender: Sender;
  readonly senderReason: string;
  readonly outcome: Outcome;
  /** The service port of the outcome; empty: it has none. */
  readonly ports: readonly DesiredServicePort[];
}

/** Finds the sender and the outcome. @param from the sender that the command line names */
export function askAbout(
  target: PacketTarget,
  { from, ...known }: Known & { readonly from: Sender | undefined },
): AskedPacket {
  const { source, address, port, protocol } = target;
  const { sender, reason: senderReason } = from === undefined
    ? senderOf(source, known)
    : { sender: from, reason: "named by --from" };
  const outcome = explainSent({ sender, source, address, port, protocol }, known);
  const ports = portsFor(target, known.desired).filter(({ name }) => name === outcome.servicePort);
  return { target, sender, senderReason, outcome, ports };
}

type PacketInputs = Known & AskedPacket;

/** Explains a packet from the objects alone. */
export function explainTarget(inputs: PacketInputs): PacketReport {
  const { target, sender, senderReason, outcome, nodeFindings } = inputs;
  const { source = null, address, port, protocol } = target;
  const { verdict, endpoints, servicePort } = outcome;
  const family = familyOf(address);
  const losses = verdict === "dnat"
    ? lossesTo({ family, endpoints: chosenOf(inputs) }, inputs)
    : [];
  const service = servicePort === null ? "" : serviceOf(servicePort);
  const packets = { service, family, endpoints, senders: [sender] };
  const drops = verdict === "dnat" ? dropsOf(packets, inputs) : [];
  const drop = verdict === "dnat" ? dropOf(packets, inputs) : undefined;
  return {
    explainVersion: EXPLAIN_VERSION,
    kind: "packet",
    mode: inputs.traits.name,
    node: inputs.nodeName,
    packet: { source, sender, senderReason, address, port, protocol },
    summary: "",
    outcome,
    droppedBy: drop?.by ?? null,
    stickyEndpoint: null,
    findings: sortFindings([
      ...outcomeFindings(outcome),
      ...clusterIPEndpoints(outcome.endpoints, inputs),
      ...detectionFindings(inputs),
      ...aboutService(service, {
        found: nodeFindings,
        drops: drops.filter((each) => !isCertain(each)),
      }),
      ...losses.map(fromNode),
      ...drop && isCertain(drop.finding)
        ? [error(drop.finding.id, drop.finding.what, drop.finding.remedy)]
        : [],
    ]),
    kernel: NOT_READ,
    connections: null,
    trace: null,
    objects: inputs.origin,
  };
}

/** Returns the endpoints of an outcome, with all their facts. */
function chosenOf({ outcome, ports }: AskedPacket) {
  const chosen = new Set(outcome.endpoints.map(({ address }) => address));
  return ports.flatMap((port) => usedEndpoints(port)).filter(({ address }) => chosen.has(address));
}

/** Adds the kernel's part to a report. @param part `trace`: a text is the reason why it is missing */
export function packetWithKernel(
  report: PacketReport,
  part: KernelPart & { readonly trace: TraceReport | string | undefined },
): PacketReport {
  const { kernel, trace } = part;
  const { outcome, packet } = report;
  const sticky = kernel.stickyClients.find(({ client }) => client === packet.source);
  const full = withKernel(report, part);
  return {
    ...full,
    summary: summaryOf(report, kernel),
    stickyEndpoint: sticky && outcome.verdict === "dnat"
      ? { address: sticky.address, port: sticky.port }
      : null,
    findings: trace === undefined
      ? full.findings
      : sortFindings([...full.findings, ...traceFindings(trace)]),
    trace: typeof trace === "object" ? trace : null,
  };
}

function summaryOf(
  { outcome: { verdict, code }, findings, droppedBy: drop }: PacketReport,
  kernel: KernelReport,
): string {
  if (code === "localhost-listener") return "goes to a listener of signpost";
  if (verdict === "none") return "is not handled by signpost";
  const should = `should be ${PASSIVE[verdict]}`;
  const loss = findings.find(({ code }) => isLoss(code));
  switch (kernel.state) {
    case "empty":
      return `${should}, but the kernel has no rules of signpost`;
    case "different":
      return `${should}, but the kernel differs`;
    case "same":
    case "unread":
      if (loss) return `${should}, but ${loss.message}`;
      return drop
        ? `${should}, but table ${drop.table} ${
          drop.mayPass ? "may drop" : "drops"
        } it (chain ${drop.chain})`
        : `is ${PASSIVE[verdict]}`;
  }
}

function outcomeFindings({ verdict, code, reason, servicePort }: Outcome): ExplainFinding[] {
  if (verdict !== "drop" && verdict !== "reject") return [];
  const hint = servicePort === null ? "" : `signpost explain ${serviceOf(servicePort)}`;
  return [error(code, `the packet is ${PASSIVE[verdict]}: ${reason}`, hint)];
}

/** Finds a pod that the rules do not detect: it is masqueraded, or treated as a client from outside. */
function detectionFindings(inputs: PacketInputs): ExplainFinding[] {
  const { target: { source, address }, sender, desired } = inputs;
  const { localDetector } = desired.node.families[familyOf(address)];
  if (sender === "pod" && source === undefined && localDetector) {
    return undetectedPods(familyOf(address), inputs).all.map(fromNode);
  }
  if (sender !== "pod" || isLocalPod({ sender, source }, localDetector)) return [];
  return [warning(
    "pod-not-recognised",
    localDetector?.type === "cidr"
      ? `${source} is outside of ${localDetector.cidr}: the rules do not detect it as a pod`
      : "no setting says which senders are pods: the rules do not detect it as a pod",
    "set clusterCIDR, or another detectLocalMode",
  )];
}

function traceFindings(trace: TraceReport | string): ExplainFinding[] {
  if (typeof trace === "string") return [warning("not-traced", trace)];
  const { agrees, verdict, destination, hasLeft } = trace;
  if (agrees && verdict === "dnat" && !hasLeft) {
    const endpoint = destination || "an endpoint";
    return [error(
      "no-route",
      `the real packet to ${endpoint} did not leave this node: the node has no route there`,
      "run ip route get ENDPOINT; the network plugin makes the routes to pods",
    )];
  }
  if (agrees) return [];
  const seen = verdict === "lost"
    ? "was not seen by the rules: this node has no route for it"
    : verdict === "dnat"
    ? `went to ${destination}`
    : verdict === "none"
    ? "was left alone"
    : `was ${PASSIVE[verdict]}`;
  return [error(
    "trace-disagrees",
    `the real packet ${seen}, which is not what the rules should do`,
    "signpost verify compares all rules",
  )];
}

type SenderFacts = Pick<World, "desired" | "ownAddresses"> & Pick<Known, "cache" | "nodeName">;

/** Finds the sender by its address: this node, a pod, or any other host. */
export function senderOf(
  source = "",
  { cache: { node, slices }, desired, ownAddresses, nodeName }: SenderFacts,
): { readonly sender: Sender; readonly reason: string } {
  if (ownAddresses.includes(source) || node?.addresses.includes(source)) {
    return { sender: "node", reason: `${source} is an address of this node` };
  }
  const podCIDR = node?.podCIDRs.find((cidr) => cidrContains(cidr, source));
  if (podCIDR) return { sender: "pod", reason: `${source} is in this node's pod CIDR ${podCIDR}` };
  const { localDetector } = desired.node.families[familyOf(source)];
  if (localDetector?.type === "cidr" && cidrContains(localDetector.cidr, source)) {
    return { sender: "pod", reason: `${source} is in the cluster CIDR ${localDetector.cidr}` };
  }
  for (const { name, endpoints } of slices.values()) {
    if (endpoints.some((each) => each.address === source && each.nodeName === nodeName)) {
      return { sender: "pod", reason: `${source} is an endpoint on this node (slice ${name})` };
    }
  }
  return { sender: "external", reason: `${source} is not an address of this node or of its pods` };
}

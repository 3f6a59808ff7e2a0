/** Works out the answer about a packet from the desired state and the kernel. */
import type { PacketTarget, Sender } from "../config/command.ts";
import { cidrContains, familyOf } from "../model/values/address.ts";
import type { State } from "../policy/state.ts";
import { connectionFindings, kernelFindings, kernelReport, type KernelView } from "./kernel.ts";
import { serviceOf } from "../model/cluster/names.ts";
import type { Finding as NodeFinding, ObjectsOrigin } from "../model/status.ts";
import { aboutService, dropOf, error, sortFindings, warning } from "./finding.ts";
import { type Outcome, PASSIVE, type World } from "./outcome.ts";
import { explainPacket, isLocalPod } from "./packet.ts";
import {
  EXPLAIN_VERSION,
  type Finding,
  type ForeignDrop,
  type KernelReport,
  type PacketReport,
  type TrackedConnection,
} from "./report.ts";
import type { TraceReport } from "./trace.ts";

/** The parts of the answer. */
export interface PacketInputs {
  readonly target: PacketTarget;
  /** As the command line says; `undefined`: to be told from the source address. */
  readonly from: Sender | undefined;
  readonly state: State;
  readonly world: World;
  readonly nodeName: string;
  readonly origin: ObjectsOrigin;
  readonly kernel: KernelView;
  /** The findings on this node. */
  readonly nodeFindings: readonly NodeFinding[];
  /** `undefined`: not asked for. */
  readonly connections?: readonly TrackedConnection[];
  /** `undefined`: not asked for, or not possible. */
  readonly trace?: TraceReport;
  /** The reason why a trace that was asked for is missing; `""`: none is. */
  readonly traceProblem: string;
}

/** Explains a packet. */
export function explainTarget(inputs: PacketInputs): PacketReport {
  const { target, state, world, nodeName, trace } = inputs;
  const { source, address, port, protocol } = target;
  const { sender, reason } = senderOf({ ...inputs, source }, { ...inputs, cache: state.cache });
  const outcome = explainPacket({ sender, source, address, port, protocol }, world);
  const ports = [...state.desired.services.values()].flat()
    .filter(({ name, family, protocol }) =>
      name === outcome.servicePort && protocol === target.protocol &&
      family === familyOf(address)
    );
  const kernel = kernelReport(ports, { node: state.desired.node, view: inputs.kernel });
  const sticky = inputs.kernel.type === "read"
    ? inputs.kernel.rules.stickyClients(ports).find(({ client }) => client === source)
    : undefined;
  const drop = sender === "external" && outcome.verdict === "dnat"
    ? dropOf({
      found: inputs.nodeFindings,
      family: familyOf(address),
      endpoints: outcome.endpoints,
      ownAddresses: world.ownAddresses,
    })
    : undefined;
  return {
    explainVersion: EXPLAIN_VERSION,
    kind: "packet",
    mode: world.traits.name,
    node: nodeName,
    packet: { source: source ?? null, sender, senderReason: reason, address, port, protocol },
    summary: summaryOf(outcome, { kernel, drop: drop?.by }),
    outcome,
    droppedBy: drop?.by ?? null,
    stickyEndpoint: sticky && outcome.verdict === "dnat"
      ? { address: sticky.address, port: sticky.port }
      : null,
    findings: sortFindings([
      ...outcomeFindings(outcome),
      ...detectionFindings(inputs, sender),
      ...kernelFindings(kernel, inputs.kernel),
      ...connectionFindings(inputs.connections),
      ...outcome.servicePort === null ? [] : aboutService(serviceOf(outcome.servicePort), {
        found: inputs.nodeFindings,
        isOutside: false,
      }),
      ...drop ? [error(drop.finding.id, drop.finding.what, drop.finding.remedy)] : [],
      ...trace ? traceFindings(trace) : [],
      ...inputs.traceProblem === "" ? [] : [warning("not-traced", inputs.traceProblem)],
    ]),
    kernel,
    connections: inputs.connections ?? null,
    trace: trace ?? null,
    objects: inputs.origin,
  };
}

function summaryOf(
  { verdict, code }: Outcome,
  { kernel, drop }: { readonly kernel: KernelReport; readonly drop: ForeignDrop | undefined },
): string {
  if (code === "localhost-listener") return "is taken by a listener of signpost's";
  if (verdict === "none") return "is not handled by signpost";
  const should = `should be ${PASSIVE[verdict]}`;
  switch (kernel.state) {
    case "empty":
      return `${should}, but the kernel holds no rules of signpost's`;
    case "different":
      return `${should}, but the kernel differs`;
    case "same":
    case "unread":
      return drop
        ? `${should}, but table ${drop.table} drops it (chain ${drop.chain})`
        : `is ${PASSIVE[verdict]}`;
  }
}

function outcomeFindings({ verdict, code, reason, servicePort }: Outcome): Finding[] {
  if (verdict !== "drop" && verdict !== "reject") return [];
  const hint = servicePort === null ? "" : `signpost explain ${serviceOf(servicePort)}`;
  return [
    error(code, `the packet is ${PASSIVE[verdict]}: ${reason}`, hint),
  ];
}

/** Warns of a pod that the rules do not recognise: it is masqueraded, or treated as a client from outside. */
function detectionFindings({ target, world }: PacketInputs, sender: Sender): Finding[] {
  const family = familyOf(target.address);
  const { localDetector } = world.state.node.families[family];
  if (sender !== "pod" || isLocalPod({ sender, source: target.source }, localDetector)) return [];
  return [warning(
    "pod-not-recognised",
    localDetector?.type === "cidr"
      ? `${target.source} is outside of ${localDetector.cidr}: the rules do not take it for a pod`
      : "no setting says which senders are pods: the rules do not take it for one",
    "set clusterCIDR, or another detectLocalMode",
  )];
}

function traceFindings({ agrees, verdict, destination, hasLeft }: TraceReport): Finding[] {
  if (agrees && verdict === "dnat" && !hasLeft) {
    const endpoint = destination === "" ? "an endpoint" : destination;
    return [error(
      "no-route",
      `the real packet was to go to ${endpoint}, and did not leave this node: it has no route there`,
      "ip route get ENDPOINT; the network plugin makes the routes to pods",
    )];
  }
  if (agrees) return [];
  const seen = verdict === "lost"
    ? "was not seen by the rules: this node has no route for it"
    : verdict === "dnat"
    ? `went to ${destination}`
    : verdict === "none"
    ? "was left alone"
    : `met ${verdict}`;
  return [error(
    "trace-disagrees",
    `the real packet ${seen}, which is not what the rules should do`,
    "signpost verify compares all rules",
  )];
}

/** The sender, and how it is known. */
interface SenderGuess {
  readonly sender: Sender;
  readonly reason: string;
}

/**
 * Tells the sender: this node, a pod, or any other host.
 * @param from as the command line says
 */
export function senderOf(
  { source = "", from }: {
    readonly source: string | undefined;
    readonly from?: Sender | undefined;
  },
  { cache, world, nodeName }: Pick<State, "cache"> & {
    readonly world: World;
    readonly nodeName: string;
  },
): SenderGuess {
  if (from !== undefined) return { sender: from, reason: "--from says so" };
  const { node } = cache;
  if (world.ownAddresses.includes(source) || node?.addresses.includes(source)) {
    return { sender: "node", reason: `${source} is an address of this node` };
  }
  const podCIDR = node?.podCIDRs.find((cidr) => cidrContains(cidr, source));
  if (podCIDR) return { sender: "pod", reason: `${source} is in this node's pod CIDR ${podCIDR}` };
  const { localDetector } = world.state.node.families[familyOf(source)];
  if (localDetector?.type === "cidr" && cidrContains(localDetector.cidr, source)) {
    return { sender: "pod", reason: `${source} is in the cluster CIDR ${localDetector.cidr}` };
  }
  for (const { name, endpoints } of cache.slices.values()) {
    if (endpoints.some((each) => each.address === source && each.nodeName === nodeName)) {
      return { sender: "pod", reason: `${source} is an endpoint on this node (slice ${name})` };
    }
  }
  return { sender: "external", reason: `${source} is no address of this node or of its pods` };
}

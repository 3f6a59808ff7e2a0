/** Makes the report about one Service from objects, desired state and kernel. */
import type { Sender, ServiceTarget } from "../config/command.ts";
import { checkPodRange } from "../findings/addresses.ts";
import { objectKey, serviceOf, servicePortName, vipKey } from "../model/cluster/names.ts";
import type { Service, ServicePort } from "../model/cluster/objects.ts";
import { type DesiredServicePort, isExternal, usedEndpoints } from "../model/kernel/desired.ts";
import type { Conflict } from "../model/status.ts";
import { familyOf, isSpecialAddress } from "../model/values/address.ts";
import { nodePortClaim } from "../policy/service_claims.ts";
import { type Frontend, frontendsOf, LISTEN_ADDRESS, policyOf } from "../policy/frontend.ts";
import type { State } from "../policy/state.ts";
import type { SliceFacts } from "../source/objects/inspect.ts";
import { findCauses, isAsked, notProxied, type ServiceInputs, statusFindings } from "./causes.ts";
import { explainEndpoints } from "./endpoints.ts";
import { aboutService, dropOf, dropsOf, fromNode, lossesTo, sortFindings } from "./finding.ts";
import { type KernelPart, withKernel } from "./kernel.ts";
import { probeFindings, UNREACHABLE } from "./probe.ts";
import {
  explainSent,
  type Known,
  nodePortAddresses,
  UNDETECTED_POD,
  undetectedPods,
} from "./packet.ts";
import {
  EXPLAIN_VERSION,
  type ExplainFinding,
  type FrontendReport,
  NOT_READ,
  type PortReport,
  type ProbeReport,
  type ServiceReport,
  type TrafficReport,
} from "./report.ts";
import { trafficFindings, UNANSWERED } from "./traffic.ts";

/** Returns the desired ports that are asked about. */
export function askedPorts(
  target: ServiceTarget,
  { cache, desired }: Pick<State, "cache" | "desired">,
): readonly DesiredServicePort[] {
  const key = objectKey(target);
  const service = cache.services.get(key);
  return (desired.services.get(key) ?? [])
    .filter((port) => isAsked(service && portOf(service, port), target));
}

/** Returns the port of the Service that a desired port stands for. */
function portOf(
  service: Service,
  { name, protocol, port }: DesiredServicePort,
): ServicePort | undefined {
  return service.ports.find((each) =>
    each.port === port && each.protocol === protocol &&
    servicePortName(objectKey(service), each) === name
  );
}

/** Explains a Service from the objects alone. */
export function explainService(
  { history = [], ...inputs }: ServiceInputs & Partial<Pick<ServiceReport, "history">>,
): ServiceReport {
  const { target, cache, inspected, nodeName, status } = inputs;
  const key = objectKey(target);
  const service = cache.services.get(key);
  const asked = askedPorts(target, inputs);
  const ports = service ? asked.map((port) => portReport(port, { service, inputs })) : [];
  const unusedSlices = service ? unusedSlicesOf(inputs) : [];
  const lost = service
    ? asked.flatMap((port) => [...lostFrontends(port, { service, inputs }).values()])
    : [];
  // Two ports may have one node port.
  const conflicts = [...new Set(lost)];
  const findings = sortFindings([
    ...service
      ? findCauses({ ...inputs, service, ports, unusedSlices, conflicts })
      : [notProxied(inputs), ...statusFindings(status)],
    ...asked.flatMap((port) =>
      lossesTo({ family: port.family, endpoints: usedEndpoints(port) }, inputs).map(fromNode)
    ),
    ...undetectedPodFindings(asked, inputs),
    ...aboutService(key, {
      found: inputs.nodeFindings.filter(({ id }) => id !== UNDETECTED_POD),
      drops: [...new Set(asked.flatMap((port) => dropsOf(packetsTo(port), inputs)))],
    }),
  ]);
  return withVerdict({
    explainVersion: EXPLAIN_VERSION,
    kind: "service",
    service: key,
    type: service?.type ?? inspected?.service?.type ?? "",
    selector: inspected?.service?.selector ?? "",
    mode: inputs.traits.name,
    node: nodeName,
    zone: cache.node?.zone ?? "",
    verdict: service ? "delivered" : "not-proxied",
    summary: "",
    findings,
    ports,
    unusedSlices,
    kernel: NOT_READ,
    stickyClients: [],
    connections: null,
    traffic: null,
    probe: null,
    objects: inputs.origin,
    status: status ?? null,
    history,
  });
}

/** Finds pods of the Service that the rules do not detect. The node's finding names only some Services. */
function undetectedPodFindings(
  ports: readonly DesiredServicePort[],
  inputs: ServiceInputs,
): ExplainFinding[] {
  const { desired: { node }, ownAddresses: interfaceAddresses, target } = inputs;
  const services = new Map([[objectKey(target), ports]]);
  const objects = { node: undefined, desired: { node, services } };
  const local = ports.filter((port) => isExternal(port) && port.externalTrafficPolicy === "Local");
  const families = new Set(local.map(({ family }) => family));
  return [
    ...[...checkPodRange({ objects, interfaceAddresses })].filter((each) => each !== undefined),
    ...[...families].flatMap((family) => undetectedPods(family, inputs).all),
  ].map(fromNode);
}

/** Adds the kernel's part, the counted connections and the results of the probe to a report. */
export function serviceWithKernel(
  report: ServiceReport,
  { probe, traffic, ...part }: KernelPart & {
    readonly probe?: ProbeReport | undefined;
    readonly traffic?: TrafficReport | undefined;
  },
): ServiceReport {
  const full = withKernel(report, part);
  // Without rules of the Service, there is nothing to compare.
  const { findings } = report.ports.length === 0 ? report : full;
  return withVerdict({
    ...full,
    findings: sortFindings([
      ...findings,
      ...probeFindings(probe?.connections ?? []),
      ...traffic ? trafficFindings(traffic) : [],
    ]),
    traffic: traffic ?? null,
    stickyClients: part.kernel.stickyClients,
    probe: probe ?? null,
  });
}

/** Sums up the findings of a report. */
function withVerdict(report: ServiceReport): ServiceReport {
  const { findings } = report;
  const [first] = findings;
  const verdict = findings.some(({ code }) => code === "service-not-found")
    ? "not-found"
    : first?.severity === "error"
    ? "broken"
    : report.verdict;
  const summary = verdict !== "delivered" && first
    ? first.message
    : `${report.service} ${describeWorking(report)}`;
  return { ...report, verdict, summary };
}

/** Returns slices that were refused or are not for this proxy. */
function unusedSlicesOf({ refused, inspected }: ServiceInputs): SliceFacts[] {
  return (inspected?.slices ?? []).map((facts) => {
    const refusal = refused.find(({ kind, key }) =>
      kind === "EndpointSlice" && key === facts.slice
    );
    return refusal ? { ...facts, reason: `refused as malformed: ${refusal.reason}` } : facts;
  }).filter(({ reason }) => reason !== "");
}

/** Describes a Service that works here: `works here, but not from outside (…)`. */
export function describeWorking({ ports, findings }: ServiceReport): string {
  const unreachable = findings.find(({ code }) => code === UNREACHABLE);
  if (unreachable) return unreachable.message;
  if (ports.some(isDroppedOutside)) {
    return "works here, but not from outside (policy Local, no endpoint on this node)";
  }
  const [drop] = ports.flatMap(({ droppedBy }) => droppedBy ?? []);
  if (drop) {
    const from = drop.senders.map((sender) => sender === "node" ? "this node" : "outside");
    return `works here, but not from ${from.join(" and ")} (table ${drop.table}, ` +
      `chain ${drop.chain})`;
  }
  return findings.some(({ code }) => code === UNANSWERED)
    ? "works here, but connections got no answer"
    : "works here";
}

/** Returns true if the external policy Local drops connections because this node has no endpoint. */
function isDroppedOutside({ frontends }: PortReport): boolean {
  return frontends.some(({ outcomes }) =>
    outcomes.some(({ sender, code, frontend }) =>
      sender === "external" && frontend !== "clusterIP" && code === "no-local-endpoints"
    )
  );
}

/** Reports on one desired port. */
function portReport(
  desired: DesiredServicePort,
  { service, inputs }: { readonly service: Service; readonly inputs: ServiceInputs },
): PortReport {
  const { cache, nodeName, inspected } = inputs;
  const { name, family, protocol } = desired;
  const slices = cache.slicesOf(objectKey(service));
  const port = portOf(service, desired) ?? { ...desired, name: "", nodePort: 0 };
  const place = { nodeName, zone: cache.node?.zone ?? "" };
  const { endpoints, topology } = explainEndpoints({ slices, port, desired, place });
  const drop = dropOf(packetsTo(desired), inputs)?.by;
  return {
    name,
    family,
    protocol,
    port: desired.port,
    targetPort: inspected?.service?.targetPorts.get(port.name) ?? "",
    topology,
    affinitySeconds: desired.affinitySeconds,
    scheduler: desired.scheduler ?? null,
    sourceRanges: desired.sourceRanges,
    frontends: [
      ...[...frontendsOf(desired), ...frontendsOnLoopback(desired, inputs)]
        .map((frontend) => frontendReport(frontend, { desired, inputs, heldBy: null })),
      ...[...lostFrontends(desired, { service, inputs })]
        .map(([frontend, { holder: heldBy }]) =>
          frontendReport(frontend, { desired, inputs, heldBy })
        ),
    ],
    endpoints,
    droppedBy: drop?.mayPass ? null : drop ?? null,
  };
}

/** Describes the packets to a service port. */
function packetsTo(port: DesiredServicePort) {
  return {
    service: serviceOf(port.name),
    family: port.family,
    endpoints: usedEndpoints(port),
    senders: SENDERS.filter((sender) => sender !== "external" || isExternal(port)),
  };
}

/** Returns the node port on loopback if signpost handles it. */
function frontendsOnLoopback(
  { family, nodePort }: DesiredServicePort,
  { desired: { node } }: Known,
): Frontend[] {
  const isThere = nodePort !== 0 && node.families[family].loopback !== undefined;
  return isThere ? [{ type: "nodePort", address: LISTEN_ADDRESS[family], port: nodePort }] : [];
}

export const SENDERS: readonly Sender[] = ["pod", "node", "external"];

function frontendReport(
  frontend: Frontend,
  { desired, inputs, heldBy }: Pick<FrontendReport, "heldBy"> & {
    readonly desired: DesiredServicePort;
    readonly inputs: Known;
  },
): FrontendReport {
  const { type, port } = frontend;
  const { family, protocol } = desired;
  // The Service holds the frontend, so other Services do not matter.
  const { node } = inputs.desired;
  const world = { ...inputs, desired: { node, services: new Map([[desired.name, [desired]]]) } };
  // One address that takes node ports represents all of them.
  const addresses = frontend.address === undefined
    ? nodePortAddresses(family, inputs)
    : [frontend.address];
  const address = frontend.address ?? addresses.find((each) => !isSpecialAddress(each));
  return {
    type,
    address: frontend.address ?? null,
    addresses,
    port,
    policy: policyOf(desired, frontend),
    heldBy,
    outcomes: heldBy !== null || address === undefined ? [] : SENDERS.map((sender) => ({
      sender,
      ...explainSent({ sender, source: undefined, address, port, protocol }, world),
    })),
  };
}

/** Returns the wanted addresses and node ports that another Service has, with the conflict. */
function lostFrontends(
  desired: DesiredServicePort,
  { service, inputs: { conflicts } }: {
    readonly service: Service;
    readonly inputs: Pick<Known, "conflicts">;
  },
): ReadonlyMap<Frontend, Conflict> {
  const { family, protocol, port } = desired;
  const { clusterIPs, loadBalancerIPs, externalIPs } = service;
  const nodePort = portOf(service, desired)?.nodePort ?? 0;
  const byClaim = new Map(
    conflicts.filter(({ loser }) => loser === objectKey(service)).map((each) => [each.claim, each]),
  );
  const lost = new Map<Frontend, Conflict>();
  const asked = { ...desired, clusterIPs, loadBalancerIPs, externalIPs, nodePort };
  for (const frontend of frontendsOf(asked)) {
    const { address } = frontend;
    if (address !== undefined && familyOf(address) !== family) continue;
    const conflict = byClaim.get(
      address === undefined ? nodePortClaim(asked, family) : vipKey(address, protocol, port),
    );
    if (conflict) lost.set(frontend, conflict);
  }
  return lost;
}

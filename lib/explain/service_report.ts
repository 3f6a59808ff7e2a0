/** Works out the answer about one Service from objects, desired state and kernel. */
import type { ServiceTarget } from "../config/command.ts";
import type { Conflict } from "../policy/claims.ts";
import { objectKey } from "../model/cluster/names.ts";
import type { Service, ServicePort } from "../model/cluster/objects.ts";
import type { State } from "../policy/state.ts";
import { connectionFindings, kernelFindings, kernelReport, type KernelView } from "./kernel.ts";
import { isExternal } from "../model/kernel/desired.ts";
import { aboutService, error, sortFindings, warning } from "./finding.ts";
import { count } from "../model/values/text.ts";
import type { Finding as NodeFinding, ObjectsOrigin, ServiceStatus } from "../model/status.ts";
import { findCauses, notProxied } from "./causes.ts";
import type { Inspector } from "../source/objects/inspect.ts";
import type { World } from "./outcome.ts";
import { claimKey, portOf, portReport } from "./ports.ts";
import {
  EXPLAIN_VERSION,
  type Finding,
  type PortReport,
  type ServiceReport,
  type TrackedConnection,
  type UnusedSlice,
} from "./report.ts";

/** The parts of the answer. */
interface ServiceInputs {
  readonly target: ServiceTarget;
  readonly state: State;
  /** `undefined`: the objects could not be looked at as they are written. */
  readonly inspector: Inspector | undefined;
  readonly world: World;
  readonly nodeName: string;
  readonly origin: ObjectsOrigin;
  /** `undefined`: no daemon answers. */
  readonly status: ServiceStatus | undefined;
  readonly externalIPsAllowed: boolean;
  readonly kernel: KernelView;
  /** The findings on this node. */
  readonly nodeFindings: readonly NodeFinding[];
  /** `undefined`: not asked for. */
  readonly connections?: readonly TrackedConnection[];
}

/** Explains a Service. */
export function explainService(inputs: ServiceInputs): ServiceReport {
  const { target, state, inspector, world, nodeName } = inputs;
  const key = objectKey(target);
  const service = state.cache.services.get(key);
  const desired = (state.desired.services.get(key) ?? [])
    .filter((port) => isWanted(portOf(service, port), target));
  const unusedSlices = service ? unusedSlicesOf(inputs) : [];
  const ports = service ? desired.map((port) => portReport(port, { ...inputs, service })) : [];
  const kernel = kernelReport(desired, { node: state.desired.node, view: inputs.kernel });
  const findings = sortFindings([
    ...service
      ? findCauses({
        service,
        facts: inspector?.service,
        slices: state.cache.slicesOf(key),
        ownAddresses: world.ownAddresses,
        unusedSlices,
        ports,
        conflicts: conflictsOf(key, { ports, state }),
        unsupported: state.desired.unsupported().filter((each) => each.service === key),
        node: state.desired.node,
        isNodeKnown: state.cache.node !== undefined,
        nodeName,
        externalIPsAllowed: inputs.externalIPsAllowed,
      })
      : [notProxied(target, { inspector, refused: state.refused })],
    ...service ? refusalFindings(key, state) : [],
    ...statusFindings(inputs.status),
    ...service && !service.ports.some((port) => isWanted(port, target))
      ? [noSuchPort(service, target)]
      : [],
    ...service ? kernelFindings(kernel, inputs.kernel) : [],
    ...omissionFindings(key, state.cache),
    ...aboutService(key, { found: inputs.nodeFindings, isOutside: desired.some(isExternal) }),
    ...connectionFindings(inputs.connections),
  ]);
  const verdict = findings.some(({ severity }) => severity === "error")
    ? "broken"
    : service
    ? "delivered"
    : "not-proxied";
  return {
    explainVersion: EXPLAIN_VERSION,
    kind: "service",
    service: key,
    type: inspector?.service?.type ?? "",
    selector: inspector?.service?.selector ?? "",
    mode: world.traits.name,
    node: nodeName,
    zone: state.cache.node?.zone ?? "",
    verdict,
    summary: summarize(key, { verdict, ports, findings }),
    findings,
    ports,
    unusedSlices,
    kernel,
    stickyClients: service && inputs.kernel.type === "read"
      ? inputs.kernel.rules.stickyClients(desired)
      : [],
    connections: inputs.connections ?? null,
    objects: inputs.origin,
    status: inputs.status ?? null,
  };
}

/** Says why the kernel does not have the Service's present state. */
function statusFindings(status: ServiceStatus | undefined): Finding[] {
  if (status?.state !== "pending") return [];
  return [
    warning("pending", `the kernel has an older state of ${status.service}: ${status.reason}`),
  ];
}

function isWanted(port: ServicePort | undefined, { port: wanted }: ServiceTarget): boolean {
  return wanted === undefined || port?.name === wanted || String(port?.port) === wanted;
}

/** Names parts of the Service and its slices that cannot be used. */
function omissionFindings(key: string, cache: State["cache"]): Finding[] {
  const service = cache.services.get(key);
  if (!service) return [];
  const objects = [
    { name: `Service ${key}`, omitted: service.omitted },
    ...Array.from(cache.slicesOf(key), (slice) => ({
      name: `EndpointSlice ${objectKey(slice)}`,
      omitted: slice.omitted,
    })),
  ];
  return objects.flatMap(({ name, omitted = [] }) =>
    omitted.map((reason) => warning("part-left-out", `${name}: a part is left out: ${reason}`))
  );
}

/** Says that a well-formed Service is over a limit. */
function refusalFindings(key: string, { refused }: State): Finding[] {
  return refused.filter((each) => each.kind === "Service" && each.key === key)
    .map(({ reason }) => error("service-refused", `${key} is refused: ${reason}`));
}

/** Returns slices that were refused, or that are not for this proxy. */
function unusedSlicesOf({ state, inspector }: ServiceInputs): UnusedSlice[] {
  return (inspector?.slices ?? []).flatMap(({ key, endpoints, ignoredBecause }) => {
    const refusal = state.refused.find((each) => each.kind === "EndpointSlice" && each.key === key);
    const reason = refusal ? `refused as malformed: ${refusal.reason}` : ignoredBecause;
    return reason === "" ? [] : [{ slice: key, endpoints, reason }];
  });
}

/** Returns conflicts that the wanted ports lose. */
function conflictsOf(
  key: string,
  { ports, state }: { readonly ports: readonly PortReport[]; readonly state: State },
): Conflict[] {
  const lost = new Set(
    ports.flatMap(({ family, protocol, frontends }) =>
      frontends.filter(({ heldBy }) => heldBy !== null)
        .map(({ address, port }) => claimKey({ family, protocol, address, port }))
    ),
  );
  return state.conflicts.filter(({ loser, claim }) => loser === key && lost.has(claim));
}

function noSuchPort(service: Service, { port }: ServiceTarget): Finding {
  const ports = service.ports.map(({ name, port, protocol }) =>
    `${name === "" ? "" : `${name} `}${port}/${protocol}`
  );
  return error("no-such-port", `the Service has no port ${port}; it has ${ports.join(", ")}`);
}

function summarize(
  service: string,
  { verdict, ports, findings }: {
    readonly verdict: ServiceReport["verdict"];
    readonly ports: readonly PortReport[];
    readonly findings: readonly Finding[];
  },
): string {
  const first = findings[0];
  if (verdict !== "delivered" && first) return first.message;
  const used = ports.flatMap(({ endpoints }) => endpoints)
    .filter(({ usedFor }) => usedFor.length > 0);
  const addresses = new Set(used.map(({ address }) => address)).size;
  const drop = ports.find(({ droppedBy }) => droppedBy !== null)?.droppedBy;
  if (drop) {
    return `${service} works on this node for pods, but table ${drop.table} drops connections from ` +
      `outside (chain ${drop.chain})`;
  }
  return `${service} works on this node: ${count(ports.length, "service port")}, ` +
    `${addresses} endpoint address${addresses === 1 ? "" : "es"} in use`;
}

/** Turns one Service and its slices into desired service ports and its health check. */
import {
  ADDRESS_BITS,
  cidrContains,
  type Family,
  familyOf,
  isEveryAddress,
  mergeCidrs,
} from "../model/values/address.ts";
import type { Acceleration } from "../model/configuration.ts";
import { type DesiredServicePort, isExternal } from "../model/kernel/desired.ts";
import { objectKey, servicePortName, vipKey } from "../model/cluster/names.ts";
import { compact, only } from "../model/values/lists.ts";
import type { Protocol, Service, ServicePort } from "../model/cluster/objects.ts";
import { type SchedulerDefaults, schedulerOf } from "../model/cluster/scheduler.ts";
import { familiesOf, nodePortClaim } from "./service_claims.ts";
import {
  type Candidate,
  chooseEndpoints,
  type Chosen,
  findCandidates,
  needOf,
  type NodeTopology,
  type PortIndex,
  toDestinations,
} from "./endpoints.ts";
import type { RefusedFeatures, ServiceFeature, Unsupported } from "../model/kernel/traits.ts";

interface ServiceInputs {
  readonly endpoints: PortIndex;
  readonly place: NodeTopology;
  /** The node's own address in each family, for source ranges that contain it. */
  readonly nodeAddresses: Readonly<Record<Family, string | undefined>>;
  /** The claims of `claimsOf` that the Service lost. */
  readonly lost: ReadonlySet<string>;
  /** The scheduler of Services without an annotation. */
  readonly schedulers: SchedulerDefaults;
  /** The Services that take the fast path; `undefined` if this node does not have it. */
  readonly accelerated?: Acceleration["services"] | undefined;
  /** The desired ports of the last sync, whose endpoints keep their slots. */
  readonly previous: readonly DesiredServicePort[];
}

/** Computes all desired ports of a Service, IPv4 first. @yields when other work can run */
export function* desiredServicePorts(
  service: Service,
  inputs: ServiceInputs,
): Generator<undefined, readonly DesiredServicePort[]> {
  const key = objectKey(service);
  const last = new Map(inputs.previous.map((each) => [slotsKey(each, key), each]));
  const all: DesiredServicePort[] = [];
  for (const family of familiesOf(service)) {
    const ranges = sourceRanges(service, family, inputs.nodeAddresses[family]);
    for (const port of service.ports) {
      all.push(desiredServicePort(service, { ...inputs, key, port, family, ranges, last }));
      yield;
    }
  }
  return compact(all);
}

interface PortInputs extends ServiceInputs {
  /** `namespace/name` of the Service. */
  readonly key: string;
  readonly port: ServicePort;
  readonly family: Family;
  readonly ranges: readonly string[];
  readonly last: ReadonlyMap<string, DesiredServicePort>;
}

/** Returns the key of a port's slots within its Service. Few distinct keys keep V8's string table small. */
function slotsKey(
  { name, family, protocol }: Pick<DesiredServicePort, "name" | "family" | "protocol">,
  service: string,
): string {
  return `${family} ${protocol} ${name.slice(service.length)}`;
}

function desiredServicePort(service: Service, inputs: PortInputs): DesiredServicePort {
  const { key, port, family, ranges, last, endpoints, place, lost } = inputs;
  const { protocol } = port;
  const name = servicePortName(key, port);
  const held = (addresses: readonly string[], others: readonly string[] = []) =>
    only(
      addresses,
      (address) =>
        familyOf(address) === family && holdsVip(port, address, lost) && !others.includes(address),
    );
  const clusterIPs = held(service.clusterIPs);
  const loadBalancerIPs = held(service.loadBalancerIPs, clusterIPs);
  const externalIPs = held(service.externalIPs, [...clusterIPs, ...loadBalancerIPs]);
  const nodePort = heldNodePort(port, family, lost);
  const { internalTrafficPolicy, externalTrafficPolicy } = service;

  const hasExternal = isExternal({ externalIPs, loadBalancerIPs, nodePort });
  const candidates = findCandidates(endpoints, { port, family, nodeName: place.nodeName });
  const need = needOf(service, { isExternal: hasExternal });
  const chosen = chooseEndpoints(candidates, { need, place });
  const previous = last.get(slotsKey({ name, family, protocol }, key));
  return {
    name,
    family,
    protocol,
    port: port.port,
    clusterIPs,
    externalIPs,
    loadBalancerIPs,
    nodePort,
    sourceRanges: ranges,
    internalTrafficPolicy,
    externalTrafficPolicy,
    affinitySeconds: service.affinitySeconds,
    clusterEndpoints: toDestinations(chosen.cluster, {
      previous: previous?.clusterEndpoints ?? [],
      place,
      // With the short circuit, a pod of another node keeps its source and may reach itself.
      isShortCircuit: externalTrafficPolicy === "Local" && hasExternal,
    }),
    localEndpoints: toDestinations(chosen.local, {
      previous: previous?.localEndpoints ?? [],
      place,
      isShortCircuit: false,
    }),
    hasEndpoints: chosen.hasEndpoints,
    ...scheduling(service, inputs),
    ...accelerating(service, protocol, inputs),
    ...otherServing(protocol, candidates, chosen),
    ...(service.healthCheckNodePort !== 0 && { healthCheckNodePort: service.healthCheckNodePort }),
  };
}

/** Returns a port without the claims that another Service has taken over. */
export function withoutLost(
  port: DesiredServicePort,
  lost: ReadonlySet<string>,
): DesiredServicePort {
  const held = (addresses: readonly string[]) =>
    only(addresses, (address) => holdsVip(port, address, lost));
  return {
    ...port,
    clusterIPs: held(port.clusterIPs),
    externalIPs: held(port.externalIPs),
    loadBalancerIPs: held(port.loadBalancerIPs),
    nodePort: heldNodePort(port, port.family, lost),
  };
}

function holdsVip(
  { protocol, port }: Pick<ServicePort, "protocol" | "port">,
  address: string,
  lost: ReadonlySet<string>,
): boolean {
  return lost.size === 0 || !lost.has(vipKey(address, protocol, port));
}

function heldNodePort(
  port: Pick<ServicePort, "protocol" | "nodePort">,
  family: Family,
  lost: ReadonlySet<string>,
): number {
  return lost.size === 0 || !lost.has(nodePortClaim(port, family)) ? port.nodePort : 0;
}

/** Returns the scheduler. With session affinity, the first endpoint of a client is random. */
function scheduling(
  { affinitySeconds, scheduler: asked }: Service,
  { schedulers }: ServiceInputs,
): Pick<DesiredServicePort, "scheduler"> | undefined {
  const scheduler = affinitySeconds > 0 ? undefined : schedulerOf(asked, schedulers);
  return scheduler && { scheduler };
}

/** Returns true if connections take the fast path. The kernel has it for TCP and UDP. */
function accelerating(
  { acceleration }: Service,
  protocol: Protocol,
  { accelerated }: ServiceInputs,
): Pick<DesiredServicePort, "accelerated"> | undefined {
  if (accelerated === undefined || protocol === "sctp") return undefined;
  const isOn = accelerated === "all" ? acceleration !== "off" : acceleration === "on";
  return isOn ? { accelerated: true } : undefined;
}

/** Returns the endpoints that serve only existing flows. For UDP, their conntrack entries stay. */
function otherServing(
  protocol: Protocol,
  candidates: readonly Candidate[],
  { cluster, local }: Chosen,
): Pick<DesiredServicePort, "otherServingEndpoints"> | undefined {
  if (protocol !== "udp") return undefined;
  const used = new Set([...cluster, ...local]);
  const others = candidates.filter((each) => each.endpoint.serving && !used.has(each));
  if (others.length === 0) return undefined;
  return {
    otherServingEndpoints: others.map(({ endpoint, port }) => ({
      address: endpoint.address,
      port,
    })),
  };
}

/** Returns the source ranges of a family. If this node is in them, its packets may come from load-balancer IPs too. */
function sourceRanges(
  service: Service,
  family: Family,
  nodeAddress: string | undefined,
): readonly string[] {
  const own = service.loadBalancerIPs.filter((ip) => familyOf(ip) === family);
  if (service.sourceRanges.length === 0 || own.length === 0) return NO_RANGES;
  const ranges = service.sourceRanges.filter((range) => familyOf(range) === family);
  if (ranges.some(isEveryAddress)) return NO_RANGES;
  const fromNode = nodeAddress !== undefined &&
    ranges.some((range) => cidrContains(range, nodeAddress));
  return mergeCidrs(
    fromNode ? [...ranges, ...own.map((ip) => `${ip}/${ADDRESS_BITS[family]}`)] : ranges,
  );
}

const NO_RANGES: readonly string[] = [];

/**
 * Removes the parts that need a refused feature. A load-balancer IP without its source ranges would be open to all
 * clients. A port without its affinity would send a client to several endpoints.
 */
export function withoutRefused(
  ports: readonly DesiredServicePort[],
  { service, refused }: { readonly service: string; readonly refused: RefusedFeatures },
): { readonly ports: readonly DesiredServicePort[]; readonly unsupported: readonly Unsupported[] } {
  if (refused.size === 0) return { ports, unsupported: [] };
  const unsupported = new Map<ServiceFeature, Unsupported>();
  const lacks = (feature: ServiceFeature, isNeeded: boolean) => {
    const refusal = isNeeded ? refused.get(feature) : undefined;
    if (refusal !== undefined) unsupported.set(feature, { service, feature, refusal });
    return refusal !== undefined;
  };
  const left = ports.flatMap((port) => {
    const { scheduler, ...random } = port;
    const hasRanges = port.sourceRanges.length > 0 && port.loadBalancerIPs.length > 0;
    const isOpen = lacks("source-ranges", hasRanges);
    const isMixed = lacks("session-affinity", port.affinitySeconds > 0);
    const held = lacks("hash", scheduler?.type === "consistent-hash") ? random : port;
    if (isMixed) return [];
    return isOpen ? [{ ...held, loadBalancerIPs: [], sourceRanges: [] }] : [held];
  });
  return { ports: left, unsupported: [...unsupported.values()] };
}

export interface HealthCheck {
  readonly port: number;
  /** The number of distinct addresses of ready endpoints on this node, for each family with a cluster IP. */
  readonly localEndpoints: ReadonlyMap<Family, number>;
  readonly loadBalancerIPs: readonly string[];
}

export function healthCheckOf(
  service: Service,
  { endpoints, nodeName, ipFamilies }: {
    readonly endpoints: PortIndex;
    readonly nodeName: string;
    readonly ipFamilies: readonly Family[];
  },
): HealthCheck | undefined {
  const { healthCheckNodePort: port, loadBalancerIPs, ports } = service;
  if (port === 0) return undefined;
  // As for the rules, a ready entry hides a terminating one.
  const addressesOf = (family: Family) =>
    ports.flatMap((each) => findCandidates(endpoints, { port: each, family, nodeName }))
      .filter(({ endpoint }) => endpoint.ready && endpoint.nodeName === nodeName)
      .map(({ endpoint }) => endpoint.address);
  const families = familiesOf(service).filter((family) => ipFamilies.includes(family));
  const localEndpoints = new Map(
    families.map((family) => [family, new Set(addressesOf(family)).size]),
  );
  return { port, localEndpoints, loadBalancerIPs };
}

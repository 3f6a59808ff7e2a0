/** Lists the claims of a Service, and addresses that it cannot have: of ServiceCIDRs, this daemon and programs. */
import {
  cidrContains,
  FAMILIES,
  type Family,
  familyOf,
  isLinkLocal,
} from "../model/values/address.ts";
import type { DesiredNode, FrontendType } from "../model/kernel/desired.ts";
import {
  API_SERVICE,
  claimText,
  hostPort,
  nodePortKey,
  type VipId,
  vipId,
} from "../model/cluster/names.ts";
import type { Service, ServicePort } from "../model/cluster/objects.ts";
import { grouped } from "../model/values/text.ts";
import { findCandidates, type PortIndex } from "./endpoints.ts";
import { type DesiredOptions, nodeAddress, takesNodePorts } from "./node.ts";
import { apiServerPort, type Claim, type OwnPort } from "./claims.ts";
import type { Conflict } from "../model/status.ts";
import type { Snapshot } from "../cache/cache.ts";

export interface Surroundings {
  readonly node: DesiredNode;
  readonly ownAddresses: readonly string[];
  readonly ownPorts: readonly OwnPort[];
  /** The addresses of the Node object, and `bindAddress`. */
  readonly nodeAddresses: readonly string[];
  /** The keys (`vipId`) of sockets where programs of this node receive packets, sorted. */
  readonly listeners: readonly VipId[];
  /** Endpoints of the API servers, as `address:port`; empty if they are not published. */
  readonly apiEndpoints: readonly string[];
}

interface ClaimInputs extends Omit<Surroundings, "ownAddresses" | "listeners"> {
  /** A set, because kube-proxy's ipvs mode has thousands: all virtual IPs are on an interface. */
  readonly ownAddresses: ReadonlySet<string>;
  readonly listeners: ReadonlySet<VipId>;
  /** Returns the endpoints of the Service; few Services need them. */
  readonly endpoints: () => PortIndex;
}

export function claimsOf(service: Service, inputs: ClaimInputs): Claim[] {
  const addresses = claimedAddresses(service, inputs);
  const claims: Claim[] = [];
  for (const family of familiesOf(service)) {
    for (const { address, type, family: own } of addresses) {
      if (own !== family || type !== "loadBalancerIP") continue;
      claims.push({ key: balancerClaim(address), type, isShared: true });
    }
    for (const port of service.ports) {
      for (const each of addresses) {
        if (each.family === family) claims.push(vipClaim(each, port, inputs));
      }
      if (port.nodePort !== 0) claims.push(ownNodePort(port, family, inputs));
    }
    const nodePort = service.healthCheckNodePort;
    if (nodePort === 0) continue;
    for (
      const key of [nodePortClaim({ protocol: "tcp", nodePort }, family), healthClaim(nodePort)]
    ) {
      claims.push({ key, type: "nodePort", isShared: true });
    }
  }
  return claims;
}

/** Returns the families in which the Service has a cluster IP. Its rules are in these families only. */
export function familiesOf(service: Service): readonly Family[] {
  return FAMILIES.filter((family) => service.clusterIPs.some((ip) => familyOf(ip) === family));
}

/** Returns the claim of a node port: all of the node's addresses of a family. */
export function nodePortClaim(
  port: Pick<ServicePort, "protocol" | "nodePort">,
  family: Family,
): string {
  return `IPv${family} node port ${nodePortKey(port.protocol, port.nodePort)}`;
}

/** Returns the claim of a load-balancer IP: all of its ports, before external IPs. */
function balancerClaim(address: string): string {
  return `load-balancer IP ${address}`;
}

/** Returns the claim of a health-check node port at the addresses of this node that node ports do not use. */
function healthClaim(nodePort: number): string {
  return `health-check node port ${nodePort}`;
}

/** Returns each address once, with its first type. */
function claimedAddresses(
  { clusterIPs, loadBalancerIPs, externalIPs }: Service,
  inputs: ClaimInputs,
): readonly ClaimedAddress[] {
  const types = new Map<string, FrontendType>();
  for (const address of clusterIPs) types.set(address, "clusterIP");
  for (const address of loadBalancerIPs) types.getOrInsert(address, "loadBalancerIP");
  for (const address of externalIPs) types.getOrInsert(address, "externalIP");
  return [...types].map(([address, type]) => claimedAddress(address, type, inputs));
}

type ClaimedAddress = ReturnType<typeof claimedAddress>;

/** Returns an address with its facts that are the same for every port. */
function claimedAddress(
  address: string,
  type: FrontendType,
  { node, ownAddresses, nodeAddresses }: ClaimInputs,
) {
  const family = familyOf(address);
  const { serviceCIDRs } = node.families[family];
  const isOwn = ownAddresses.has(address);
  const cidr = type === "externalIP"
    ? serviceCIDRs.find((each) => cidrContains(each, address))
    : undefined;
  return {
    address,
    family,
    type,
    isOwn,
    takesNodePorts: type !== "clusterIP" && takesNodePorts(address, { node, isOwn }),
    isNodes: nodeAddresses.includes(address),
    reserved: cidr === undefined ? undefined : {
      holder: `the ServiceCIDR ${cidr}`,
      because: "where only the API server gives addresses out",
    },
  };
}

function vipClaim(claimed: ClaimedAddress, servicePort: ServicePort, inputs: ClaimInputs): Claim {
  const { address, type, isOwn, reserved } = claimed;
  const { protocol, port } = servicePort;
  const own = protocol === "tcp"
    ? inputs.ownPorts.find((each) =>
      each.port === port && (each.address === undefined ? isOwn : each.address === address)
    )
    : undefined;
  const isFront = own?.isApiServer && leadsToServers(servicePort, claimed, inputs);
  const reservation = isFront
    ? undefined
    : own ?? reserved ?? programAt(claimed, servicePort, inputs);
  const unless = precedingClaim(claimed, servicePort);
  return {
    key: vipId(address, protocol, port),
    type,
    ...unless !== undefined && { unless },
    ...reservation && { reserved: reservation },
  };
}

/** Returns the claim that takes precedence if another Service holds it. */
function precedingClaim(
  { address, family, type, isOwn, takesNodePorts }: ClaimedAddress,
  { protocol, port }: ServicePort,
): string | undefined {
  if (takesNodePorts) return nodePortClaim({ protocol, nodePort: port }, family);
  if (type !== "externalIP") return undefined;
  return isOwn ? healthClaim(port) : balancerClaim(address);
}

/**
 * Returns a reservation if a program of this node receives the packets: sshd, kubelet, etcd. A load balancer's own
 * address may be on a node whose programs listen on all addresses, as an ingress does.
 */
function programAt(
  { address, family, type, isOwn, isNodes }: ClaimedAddress,
  { protocol, port }: ServicePort,
  { listeners }: ClaimInputs,
): Claim["reserved"] {
  if (!isOwn || type === "clusterIP") return undefined;
  const isWide = type === "externalIP" || isNodes;
  const places = [address, ...isWide ? ["::", ...family === 4 ? ["0.0.0.0"] : []] : []];
  return places.some((each) => listeners.has(vipId(each, protocol, port))) ? PROGRAM : undefined;
}

const PROGRAM = { holder: "a program of this node", because: "which listens there" };

/**
 * Returns true if a Service at the API server's address leads there. One matching endpoint is enough, because a
 * stopping API server leaves the list for a while. External IPs do not count: any user may list them.
 */
function leadsToServers(
  port: ServicePort,
  { type, family }: ClaimedAddress,
  { endpoints, apiEndpoints }: ClaimInputs,
): boolean {
  if (type === "externalIP") return false;
  const isTrusted = type === "loadBalancerIP" && apiEndpoints.length === 0;
  return findCandidates(endpoints(), { port, family, nodeName: "" }).some((each) =>
    isTrusted || apiEndpoints.includes(hostPort(each.endpoint.address, each.port))
  );
}

function ownNodePort(
  port: ServicePort,
  family: Family,
  { ownPorts, ownAddresses }: ClaimInputs,
): Claim {
  const own = port.protocol === "tcp"
    ? ownPorts.find(({ address, port: number }) =>
      number === port.nodePort &&
      (address === undefined || familyOf(address) === family && ownAddresses.has(address))
    )
    : undefined;
  return { key: nodePortClaim(port, family), type: "nodePort", ...own && { reserved: own } };
}

export function nameOfHolder(holder: string): string {
  return isServiceKey(holder) ? `Service ${holder}` : holder;
}

/** Returns true if the holder of a conflict is a Service (`namespace/name`). */
export function isServiceKey(holder: string): boolean {
  return !holder.includes(" ");
}

const MOST_NAMED = 5;

/** Describes in one line the claims that a Service lost, at least one. */
export function describeConflicts(conflicts: readonly Omit<Conflict, "loser">[]): string {
  const named = conflicts.slice(0, MOST_NAMED).map(({ claim, holder, because }) =>
    `${claimText(claim)} belongs to ${nameOfHolder(holder)}, ${because}`
  );
  const more = conflicts.length - named.length;
  return named.join("; ") + (more > 0 ? `; … and ${grouped(more)} more` : "");
}

/** Describes in one line, with the Service's name, the claims that it lost, at least one. */
export function conflictLine(loser: string, lost: readonly Conflict[]): string {
  return `Service ${loser} does not get all its addresses: ${describeConflicts(lost)}`;
}

export function conflictLines(conflicts: readonly Conflict[]): string[] {
  return [...Map.groupBy(conflicts, ({ loser }) => loser)].map((each) => conflictLine(...each));
}

/** Reads the facts that claims depend on. Their lists are sorted, so that equal facts compare as equal. */
export function surroundingsOf(
  objects: Pick<Snapshot, "node" | "slicesOf">,
  { desired, options }: {
    readonly desired: DesiredNode;
    readonly options: Pick<
      DesiredOptions,
      "configuration" | "ownAddresses" | "ownPorts" | "listeningSockets"
    >;
  },
): Surroundings {
  const { configuration, ownAddresses = () => [], ownPorts = () => [] } = options;
  const { listeningSockets = () => [] } = options;
  const { node } = objects;
  const nodeAddresses = [
    ...node?.addresses ?? [],
    ...FAMILIES.flatMap((family) => nodeAddress({ configuration, node }, family) ?? []),
  ];
  const addresses = new Set([
    // A Service cannot have a link-local address, and each pod's interface adds one.
    ...ownAddresses().filter((each) => !isLinkLocal(each)),
    ...nodeAddresses,
  ]);
  const ports = ownPorts();
  const servers = ports.some(({ isApiServer }) => isApiServer) ? apiEndpointsOf(objects) : [];
  return {
    node: desired,
    ownAddresses: [...addresses].sort(),
    ownPorts: [...ports, ...servers],
    nodeAddresses,
    listeners: listeningSockets().map(({ address, protocol, port }) =>
      vipId(address, protocol, port)
    ).sort(),
    apiEndpoints: servers.map(({ address = "", port }) => hostPort(address, port)),
  };
}

/** Returns the endpoints that API servers publish, also if they are not ready. */
function apiEndpointsOf(objects: Pick<Snapshot, "slicesOf">): OwnPort[] {
  return objects.slicesOf(API_SERVICE).flatMap(({ ports, endpoints }) =>
    ports.flatMap(({ port }) => endpoints.map(({ address }) => apiServerPort(address, port)))
  );
}

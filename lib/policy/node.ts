/** Computes the node's part of the desired state from its Node, the ServiceCIDRs and the configuration. */
import {
  ADDRESS_BITS,
  cidrContains,
  cidrsOverlap,
  cutOut,
  FAMILIES,
  type Family,
  familyOf,
  isEveryAddress,
  isLoopback,
  isSpecialAddress,
  mergeCidrs,
} from "../model/values/address.ts";
import { LOCALHOST_GATE } from "../config/checks.ts";
import type { Configuration } from "../config/configuration.ts";
import { isLoopbackRange, nodePortEntries, nodePortRanges } from "../model/configuration.ts";
import type { ModeTraits, RefusedFeatures } from "../model/kernel/traits.ts";
import type {
  DesiredFamily,
  DesiredNode,
  LocalDetector,
  NodePortAddresses,
} from "../model/kernel/desired.ts";
import type { Node, ServiceCIDR } from "../model/cluster/objects.ts";
import type { ListeningSocket, OwnPort } from "./claims.ts";

/** The settings of the desired state, fixed for the life of the process. */
export interface DesiredOptions {
  readonly configuration: Configuration;
  readonly traits: ModeTraits;
  readonly nodeName: string;
  /** The families that have rules; all by default. */
  readonly ipFamilies?: readonly Family[];
  /** Features that nft or the kernel refuses; none by default. Services that need them are refused. */
  readonly refusedFeatures?: RefusedFeatures | undefined;
  /** Returns all canonical addresses of this machine; none by default. */
  readonly ownAddresses?: () => readonly string[];
  /** Returns TCP ports that a Service cannot have: the daemon's and the API server's. Absent without an API server. */
  readonly ownPorts?: () => readonly OwnPort[];
  /** Returns the sockets of this machine's programs; none by default. */
  readonly listeningSockets?: () => readonly ListeningSocket[];
}

interface NodeInputs
  extends Omit<DesiredOptions, "nodeName" | "ownAddresses" | "listeningSockets"> {
  readonly node: Node | undefined;
  readonly serviceCIDRs: readonly ServiceCIDR[];
}

export function desiredNode(inputs: NodeInputs): DesiredNode {
  const { configuration, traits } = inputs;
  const settings = configuration[traits.name];
  return {
    ipFamilies: inputs.ipFamilies ?? FAMILIES,
    families: { 4: desiredFamily(inputs, 4), 6: desiredFamily(inputs, 6) },
    masqueradeAll: settings.masqueradeAll,
    // A shift by 31 is negative in JavaScript without `>>> 0`.
    masqueradeMark: (1 << settings.masqueradeBit) >>> 0,
    localhostNodePorts: traits.localhostNodePorts === "rules" &&
      configuration.iptables.localhostNodePorts,
    tcpBeLiberal: configuration.conntrack.tcpBeLiberal,
    countsConnections: configuration.signpost.serviceMetrics &&
      inputs.refusedFeatures?.has("connection-counters") !== true,
    ...acceleration(inputs),
  };
}

/** Returns the fast path, if the mode has it, and neither nft nor the kernel refuses it. */
function acceleration(
  { configuration, traits, refusedFeatures }: NodeInputs,
): Pick<DesiredNode, "acceleration"> {
  const { interfaces, packets } = configuration.signpost.acceleration;
  const isRefused = traits.refuses.has("acceleration") || refusedFeatures?.has("acceleration");
  return interfaces.length === 0 || isRefused ? {} : { acceleration: { packets, interfaces } };
}

/** Returns the node's own address in a family: `bindAddress` if it names one, else the Node's first. */
export function nodeAddress(
  inputs: Pick<NodeInputs, "configuration" | "node">,
  family: Family,
): string | undefined {
  const { bindAddress } = inputs.configuration;
  if (familyOf(bindAddress) === family && !isSpecialAddress(bindAddress)) return bindAddress;
  return inputs.node?.addresses.find((address) => familyOf(address) === family);
}

/** Returns true if node ports answer on an address: on loopback by the setting, else if an interface has it. */
export function takesNodePorts(
  address: string,
  { node, isOwn }: { readonly node: DesiredNode; readonly isOwn: boolean },
): boolean {
  const family = familyOf(address);
  const { nodePortAddresses } = node.families[family];
  const isHere = isLoopback(address) ? answersOnLoopback(node, family) : isOwn;
  return isHere && (nodePortAddresses.type === "all" ||
    nodePortAddresses.cidrs.some((cidr) => cidrContains(cidr, address)));
}

/** Returns true if node ports of this family answer on loopback. The kernel does not route packets from `::1`. */
export function answersOnLoopback(node: DesiredNode, family: Family): boolean {
  if (family !== 4 || !node.localhostNodePorts) return false;
  const { nodePortAddresses } = node.families[family];
  return nodePortAddresses.type === "all" ||
    nodePortAddresses.cidrs.some((cidr) => cidrsOverlap(cidr, "127.0.0.0/8"));
}

type NodePortInputs = Pick<NodeInputs, "configuration" | "traits" | "node">;

/** Returns true if node ports of a family answer on all addresses because the Node lacks an address. */
export function lacksNodeAddress(inputs: NodePortInputs): boolean {
  return usesPrimary(inputs) && (inputs.node?.addresses ?? []).length === 0 &&
    FAMILIES.some((family) => nodePortCidrs(inputs, family).length === 0);
}

function usesPrimary({ configuration, traits }: NodePortInputs): boolean {
  return nodePortEntries(configuration, traits).includes("primary");
}

/** Returns the configured ranges of a family; `primary` is the node's address, if known. */
function nodePortCidrs(inputs: NodePortInputs, family: Family): string[] {
  const ranges = nodePortRanges(nodePortEntries(inputs.configuration, inputs.traits));
  const own = usesPrimary(inputs) ? nodeAddress(inputs, family) : undefined;
  return mergeCidrs([
    ...ranges.filter((cidr) => familyOf(cidr) === family),
    ...own === undefined ? [] : [`${own}/${ADDRESS_BITS[family]}`],
  ]);
}

function desiredFamily(inputs: NodeInputs, family: Family): DesiredFamily {
  const cidrs = inputs.serviceCIDRs.flatMap((each) => each.cidrs);
  const serviceCIDRs = mergeCidrs(cidrs.filter((cidr) => familyOf(cidr) === family));
  const servers = apiServers(inputs);
  const isServerKnown = !inputs.ownPorts || servers.length > 0;
  return {
    localDetector: localDetector(inputs, family),
    nodePortAddresses: nodePortAddresses(inputs, family),
    ...loopbackOf(inputs, family),
    serviceCIDRs,
    // Dropping packets to the API server's address would cut the node off for good.
    guardedCIDRs: isServerKnown
      ? mergeCidrs(cutOut(serviceCIDRs, podRangesIn(serviceCIDRs, inputs)))
      : [],
    guardedServers: servers.filter((each) => serviceCIDRs.some((cidr) => cidrContains(cidr, each)))
      .sort(),
  };
}

/** Returns how node ports on loopback are treated beside the rules. */
function loopbackOf(
  { configuration, traits }: NodeInputs,
  family: Family,
): Pick<DesiredFamily, "loopback"> {
  if (traits.localhostNodePorts !== "listeners") return {};
  const isNamed = nodePortRanges(nodePortEntries(configuration, traits)).some((cidr) =>
    familyOf(cidr) === family && isLoopbackRange(cidr)
  );
  if (isNamed) return { loopback: "listeners" };
  return configuration.featureGates[LOCALHOST_GATE] === true ? { loopback: "rejects" } : {};
}

/** Returns the pod ranges inside ServiceCIDRs. A wider range does not say which of their addresses are pods. */
function podRangesIn(
  serviceCIDRs: readonly string[],
  { configuration: { clusterCIDRs }, node }: NodeInputs,
): readonly string[] {
  return [...clusterCIDRs, ...node?.podCIDRs ?? []].filter((range) =>
    serviceCIDRs.some((cidr) => cidrContains(cidr, range))
  );
}

/** Returns the API server's addresses, as far as known. */
export function apiServers({ ownPorts = () => [] }: Pick<NodeInputs, "ownPorts">): string[] {
  const servers = ownPorts().filter(({ isApiServer }) => isApiServer);
  return [...new Set(servers.flatMap(({ address }) => address ?? []))];
}

function localDetector(
  { configuration, node }: NodeInputs,
  family: Family,
): LocalDetector | undefined {
  const ofFamily = (cidrs: readonly string[]): LocalDetector | undefined => {
    const cidr = cidrs.find((each) => familyOf(each) === family);
    return cidr === undefined ? undefined : { type: "cidr", cidr };
  };
  switch (configuration.detectLocalMode) {
    case "ClusterCIDR":
      return ofFamily(configuration.clusterCIDRs);
    case "NodeCIDR":
      return ofFamily(node?.podCIDRs ?? []);
    case "BridgeInterface":
      return { type: "interface", name: configuration.detectLocal.bridgeInterface };
    case "InterfaceNamePrefix":
      return { type: "interfacePrefix", prefix: configuration.detectLocal.interfaceNamePrefix };
  }
}

/**
 * Returns the addresses of node ports in a family. As in kube-proxy, a family without ranges uses all addresses. With
 * `primary`, a family without an address of the Node gets an empty list, if the Node has addresses.
 */
function nodePortAddresses(inputs: NodeInputs, family: Family): NodePortAddresses {
  const cidrs = nodePortCidrs(inputs, family);
  const all = cidrs.length === 0
    ? !usesPrimary(inputs) || lacksNodeAddress(inputs)
    : cidrs.some(isEveryAddress);
  return all ? { type: "all" } : { type: "cidrs", cidrs };
}

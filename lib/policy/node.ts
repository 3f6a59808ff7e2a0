/**
 * What the rules need to know of this node, from its Node, the ServiceCIDRs and the configuration.
 *
 * @module
 */
import {
  ADDRESS_BITS,
  cidrContains,
  cidrsOverlap,
  FAMILIES,
  type Family,
  familyOf,
  isLoopback,
  isSpecialAddress,
  mergeCidrs,
} from "../model/values/address.ts";
import type { Configuration } from "../model/configuration.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type {
  DesiredFamily,
  DesiredNode,
  LocalDetector,
  NodePortAddresses,
} from "../model/kernel/desired.ts";
import type { RefusedFeatures } from "../model/kernel/features.ts";
import type { Node, ServiceCIDR } from "../model/cluster/objects.ts";

/** Inputs of `desiredNode`. */
export interface NodeInputs {
  readonly configuration: Configuration;
  /** Of the mode that is in effect. */
  readonly traits: ModeTraits;
  readonly node: Node | undefined;
  readonly serviceCIDRs: readonly ServiceCIDR[];
  /** Addresses that the node has besides those of the Node; none where not given. */
  readonly interfaceAddresses?: () => readonly string[];
  /** The families that rules are written for; all where not given. */
  readonly ipFamilies?: readonly Family[];
  /** What nft or the kernel refuses; nothing where not given. */
  readonly refusedFeatures?: RefusedFeatures | undefined;
}

/** Works out the node's part of the desired state. */
export function desiredNode(inputs: NodeInputs): DesiredNode {
  const { configuration, traits } = inputs;
  const settings = configuration[traits.section];
  return {
    ipFamilies: inputs.ipFamilies ?? FAMILIES,
    families: { 4: desiredFamily(inputs, 4), 6: desiredFamily(inputs, 6) },
    masqueradeAll: settings.masqueradeAll,
    // A shift by 31 is negative in JavaScript without `>>> 0`.
    masqueradeMark: (1 << settings.masqueradeBit) >>> 0,
    healthzPort: Number(/\d+$/.exec(configuration.healthzBindAddress)?.[0] ?? 0),
    localhostNodePorts: traits.localhostNodePorts && configuration.iptables.localhostNodePorts,
    tcpBeLiberal: configuration.conntrack.tcpBeLiberal,
    countsConnections: configuration.signpost.serviceMetrics &&
      inputs.refusedFeatures?.has("connection-counters") !== true,
    cutsFrontends: false,
  };
}

/**
 * The node's own address in a family: `bindAddress` where it is one, else the Node's first.
 * A bind address of `0.0.0.0` or `::` names none.
 */
export function nodeAddress(
  inputs: Pick<NodeInputs, "configuration" | "node">,
  family: Family,
): string | undefined {
  const { bindAddress } = inputs.configuration;
  if (familyOf(bindAddress) === family && !isSpecialAddress(bindAddress)) return bindAddress;
  return inputs.node?.addresses.find((address) => familyOf(address) === family);
}

/**
 * Whether node ports answer on an address: on loopback as the setting says, in IPv4 alone, and else where the
 * node has it.
 *
 * @param options.isOwn whether an interface of the node has the address
 */
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

/**
 * Whether node ports of this family answer on a loopback address: IPv4 alone, as the kernel routes no
 * packet from `::1` elsewhere.
 */
export function answersOnLoopback(node: DesiredNode, family: Family): boolean {
  if (family !== 4 || !node.localhostNodePorts) return false;
  const { nodePortAddresses } = node.families[family];
  return nodePortAddresses.type === "all" ||
    nodePortAddresses.cidrs.some((cidr) => cidrsOverlap(cidr, "127.0.0.0/8"));
}

/** Whether node ports are to be on the node's own address, and the Node has told none. */
export function lacksNodeAddress(
  inputs: Pick<NodeInputs, "configuration" | "traits" | "node">,
): boolean {
  return usesPrimary(inputs) && (inputs.node?.addresses ?? []).length === 0;
}

function usesPrimary(
  { configuration, traits }: Pick<NodeInputs, "configuration" | "traits">,
): boolean {
  const setting = configuration.nodePortAddresses;
  return setting.length === 0 ? traits.primaryNodePorts : setting[0] === "primary";
}

function desiredFamily(inputs: NodeInputs, family: Family): DesiredFamily {
  const cidrs = inputs.serviceCIDRs.flatMap((each) => each.cidrs);
  return {
    localDetector: localDetector(inputs, family),
    nodePortAddresses: nodePortAddresses(inputs, family),
    serviceCIDRs: mergeCidrs(cidrs.filter((cidr) => familyOf(cidr) === family)),
    ownAddresses: ownAddresses(inputs).filter((address) => familyOf(address) === family),
  };
}

function ownAddresses(
  { configuration: { bindAddress }, node, interfaceAddresses = () => [] }: NodeInputs,
): string[] {
  const named = isSpecialAddress(bindAddress) ? [] : [bindAddress];
  return [...new Set([...named, ...node?.addresses ?? [], ...interfaceAddresses()])].sort();
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
 * A family that the setting does not name takes node ports on all its addresses, as in kube-proxy. So
 * does `primary` while no address of the node is known.
 */
function nodePortAddresses(inputs: NodeInputs, family: Family): NodePortAddresses {
  const setting = inputs.configuration.nodePortAddresses;
  if (usesPrimary(inputs)) {
    const address = nodeAddress(inputs, family);
    if (address !== undefined) {
      return { type: "cidrs", cidrs: [`${address}/${ADDRESS_BITS[family]}`] };
    }
    return lacksNodeAddress(inputs) ? { type: "all" } : { type: "cidrs", cidrs: [] };
  }
  const cidrs = mergeCidrs(setting.filter((cidr) => familyOf(cidr) === family));
  const all = cidrs.length === 0 || cidrs.some((cidr) => cidr.endsWith("/0"));
  return all ? { type: "all" } : { type: "cidrs", cidrs };
}

/** Checks the addresses of the Node, of pods, of cluster IPs and of settings. */
import {
  cidrContains,
  cidrTest,
  FAMILIES,
  type Family,
  familyOf,
  isSpecialAddress,
  parseAddress,
} from "../model/values/address.ts";
import { type Configuration, inEffect } from "../config/configuration.ts";
import { serviceOf, splitHostPort } from "../model/cluster/names.ts";
import { NODE_PORT_WORDS } from "../model/configuration.ts";
import type { DesiredState } from "../model/kernel/desired.ts";
import { eachPort, type NodeFacts, type ObjectFacts } from "./facts.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "./catalog.ts";
import { lacksNodeAddress } from "../policy/node.ts";

/**
 * Finds settings of the wrong IP family, and node ports on more addresses than the settings name. kube-proxy checks
 * the same at its start (`checkBadConfig` and `checkBadIPConfig` of cmd/kube-proxy/app/server.go).
 */
export function* checkFamilies(
  { objects, configuration, traits }: NodeFacts,
): Generator<Finding> {
  if (!objects) return;
  const { node, desired } = objects;
  const { bindAddress } = configuration;
  const own = isSpecialAddress(bindAddress) ? node?.addresses[0] : bindAddress;
  const inputs = {
    configuration: inEffect(configuration, traits),
    primary: familyOf(own ?? bindAddress),
    podCIDRs: node?.podCIDRs ?? [],
    dualStack: desired.node.ipFamilies.length > 1,
  };
  yield* nodePortProblems(inputs);
  yield* familyProblems(inputs);
}

/** The facts for checks of IP families. */
export interface FamilyInputs {
  /** In effect: with the chosen mode and its default node port addresses. */
  readonly configuration: Configuration;
  /** The family of the node's first address. */
  readonly primary: Family;
  readonly podCIDRs: readonly string[];
  /** True if this node has rules of both families. */
  readonly dualStack: boolean;
}

/** Finds node ports that are open on more addresses than the setting names. */
export function* nodePortProblems(
  { configuration, primary, podCIDRs }: FamilyInputs,
): Generator<Finding> {
  const { nodePortAddresses, clusterCIDRs, ipvs } = configuration;
  const where = "nodePortAddresses";
  if (nodePortAddresses.length === 0) {
    const what = "nodePortAddresses is not set: node ports answer on all addresses of this node";
    return yield finding("node-ports-on-all-addresses", { what, where });
  }
  if (nodePortAddresses.some((entry) => NODE_PORT_WORDS.includes(entry))) return;
  const lists = [clusterCIDRs, nodePortAddresses, ipvs.excludeCIDRs, podCIDRs];
  const isDual = lists.some((cidrs) => has(cidrs, 4) && has(cidrs, 6));
  const needed = isDual ? [primary, otherFamily(primary)] : [primary];
  const open = needed.find((family) => !has(nodePortAddresses, family));
  if (open === undefined) return;
  const what =
    `nodePortAddresses has only IPv${otherFamily(open)} ranges: node ports answer on all ` +
    `IPv${open} addresses of this node`;
  const remedy = `Add IPv${open} ranges to nodePortAddresses (--nodeport-addresses).`;
  yield finding("node-ports-of-one-family", { what, where, remedy });
}

/** Finds settings that have only addresses of the node's second IP family. */
export function* familyProblems(
  { configuration, primary, podCIDRs, dualStack }: FamilyInputs,
): Generator<Finding> {
  const { detectLocalMode } = configuration;
  const wrong = otherFamily(primary);
  const node = dualStack ? `IPv${primary}-first` : `IPv${primary}-only`;
  function* check(
    where: string,
    addresses: readonly string[],
    { isUsed = false, isFatal = false } = {},
  ) {
    if (!has(addresses, wrong) || has(addresses, primary)) return;
    const effect = isUsed
      ? `: pods of this node are not detected by their IPv${primary} addresses, and traffic ` +
        "from outside to cluster IPs is not masqueraded"
      : "";
    const what = `this node is ${node}, and ${where} has only IPv${wrong} addresses${effect}`;
    const id = isUsed && isFatal ? "pod-detection-of-other-family" : "setting-of-other-family";
    yield finding(id, { what, where });
  }
  yield* check("clusterCIDR", configuration.clusterCIDRs, {
    isUsed: detectLocalMode === "ClusterCIDR",
    isFatal: !dualStack,
  });
  yield* check("the Node's spec.podCIDRs", podCIDRs, {
    isUsed: detectLocalMode === "NodeCIDR",
    isFatal: true,
  });
  if (dualStack) return;
  yield* check("ipvs.excludeCIDRs", configuration.ipvs.excludeCIDRs);
  for (const setting of ["healthzBindAddress", "metricsBindAddress"] as const) {
    const host = parseAddress(splitHostPort(configuration[setting]).hostname);
    yield* check(setting, host === undefined || isSpecialAddress(host) ? [] : [host]);
  }
}

function has(cidrs: readonly string[], family: Family): boolean {
  return cidrs.some((cidr) => familyOf(cidr) === family);
}

function otherFamily(family: Family): Family {
  return family === 4 ? 6 : 4;
}

/** Compares the Node with its name and with the addresses of the interfaces. */
export function* checkNodeAddress(facts: NodeFacts): Generator<Finding> {
  const { objects, nodeName, configuration, interfaceAddresses } = facts;
  if (!objects) return;
  const { node } = objects;
  const where = `Node ${nodeName}`;
  if (lacksNodeAddress({ ...facts, node })) {
    const what =
      `no address of this node is known (${where}), so node ports answer on all its addresses`;
    return yield finding("node-address-unknown", { what, where });
  }
  if (node === undefined) {
    // Manifests may lack a Node.
    if (configuration.signpost.manifests.length > 0) return;
    return yield finding("node-unknown", { what: `there is no ${where}`, where });
  }
  const own = new Set(interfaceAddresses);
  if (node.addresses.length === 0 || node.addresses.some((each) => own.has(each))) return;
  const what = `${where} has ${node.addresses.join(", ")}; no interface here has ${
    node.addresses.length === 1 ? "it" : "any of them"
  }`;
  yield finding("node-address-elsewhere", { what, where });
}

/** Finds nodePortAddresses without an address of this node. Words always have one, or a finding of their own. */
export function* checkNodePortRanges(
  { configuration: { nodePortAddresses: ranges }, interfaceAddresses }: NodeFacts,
): Generator<Finding> {
  const isHere = (range: string) => interfaceAddresses.some((each) => cidrContains(range, each));
  if (
    ranges.length === 0 || ranges.some((each) => NODE_PORT_WORDS.includes(each) || isHere(each))
  ) {
    return;
  }
  const what = `no interface here has an address in nodePortAddresses (${ranges.join(", ")}): ` +
    "node ports do not answer there";
  yield finding("node-address-elsewhere", { what, where: "nodePortAddresses" });
}

export function* checkPodDetection(
  { configuration, traits, objects, nodeName }: NodeFacts,
): Generator<Finding> {
  if (configuration[traits.name].masqueradeAll) return;
  const { detectLocalMode, clusterCIDRs } = configuration;
  if (detectLocalMode === "ClusterCIDR" && clusterCIDRs.length === 0) {
    const what = "clusterCIDR is not set, and detectLocalMode is ClusterCIDR: no pod is detected";
    yield finding("pods-not-detected", { what, where: "clusterCIDR" });
  }
  if (detectLocalMode === "NodeCIDR" && objects?.node?.podCIDRs.length === 0) {
    const where = `Node ${nodeName}`;
    const what = `${where} has no podCIDRs, and detectLocalMode is NodeCIDR: no pod is detected`;
    yield finding("pods-not-detected", { what, where });
  }
}

/** The most names in one finding. */
const MOST_NAMED = 20;

/**
 * Finds, for each IP family, pods outside the range by which pods are detected. Their traffic is masqueraded, and
 * dropped if a load balancer's policy is Local (k/k#112820).
 */
export function* checkPodRange(
  { objects, interfaceAddresses }: Pick<NodeFacts, "interfaceAddresses"> & {
    readonly objects?: Pick<ObjectFacts, "node"> & { readonly desired: DesiredState } | undefined;
  },
): Generator<Finding | undefined> {
  if (!objects) return;
  const { node, desired } = objects;
  // Pods on the host's network have the node's addresses.
  const own = new Set(interfaceAddresses);
  // Pods may be detected by their interface instead.
  const ranges = FAMILIES.flatMap((family) => {
    const { localDetector } = desired.node.families[family];
    if (localDetector?.type !== "cidr") return [];
    const { cidr } = localDetector;
    /** By Service, the address of its first pod outside. */
    const outside = new Map<string, string>();
    return [{ family, cidr, contains: cidrTest(cidr), outside, hasPods: false }];
  });
  if (ranges.length === 0) return;
  yield* eachPort(desired, (port) => {
    const range = ranges.find(({ family }) => family === port.family);
    if (!range) return false;
    for (const endpoints of [port.clusterEndpoints, port.localEndpoints]) {
      for (const { address, local } of endpoints) {
        if (!local || own.has(address)) continue;
        if (range.contains(address)) range.hasPods = true;
        else if (range.outside.size < MOST_NAMED) {
          range.outside.getOrInsert(serviceOf(port.name), address);
        }
      }
    }
    return false;
  });
  for (const { family, cidr, outside, hasPods } of ranges) {
    for (const podCIDR of node?.podCIDRs ?? []) {
      // A network plugin may leave podCIDRs unused.
      if (familyOf(podCIDR) !== family || hasPods || cidrContains(cidr, podCIDR)) continue;
      const what = `the podCIDR ${podCIDR} of this node is not inside of ${cidr}: traffic of its ` +
        "pods counts as traffic from outside";
      yield finding("pod-cidr-outside-detected-range", { what, where: cidr });
    }
    const [first] = outside;
    if (!first) continue;
    const [service, address] = first;
    const what = `the pod ${address} of this node (${service}) is outside ${cidr}: its traffic ` +
      "counts as traffic from outside";
    const services = [...outside.keys()];
    yield finding("pod-outside-detected-range", { what, where: cidr, services });
  }
}

/**
 * Finds ServiceCIDRs that contain addresses of pods, nodes or the API server, and an API server at a cluster IP. A
 * Service may get such an address, and nftables mode drops new connections to it.
 */
export function* checkAddressPlan(facts: NodeFacts): Generator<Finding | undefined> {
  const { objects, apiServerAddresses = [] } = facts;
  if (!objects) return;
  const cidrs = FAMILIES.flatMap((family) => objects.desired.node.families[family].serviceCIDRs);
  const ranges = cidrs.map((cidr) => ({
    cidr,
    contains: cidrTest(cidr),
    inside: knownInside(cidr, facts, objects),
    services: new Set<string>(),
  }));
  const servers = new Map<string, string>();
  yield* eachPort(objects.desired, ({ name, clusterIPs, clusterEndpoints }) => {
    const server = clusterIPs.find((each) => apiServerAddresses.includes(each));
    if (server !== undefined) servers.set(server, serviceOf(name));
    for (const { contains, inside, services } of ranges) {
      if (services.size >= MOST_NAMED) continue;
      const endpoint = clusterEndpoints.find(({ address }) => contains(address));
      if (endpoint === undefined) continue;
      const service = serviceOf(name);
      if (services.size === 0) inside.push(`the endpoint ${endpoint.address} of ${service}`);
      services.add(service);
    }
    return false;
  });
  for (const [address, service] of servers) {
    const what = `the API server ${address} is the cluster IP of Service ${service}`;
    const where = `Service ${service}`;
    yield finding("api-server-is-cluster-ip", { what, where, services: [service] });
  }
  for (const { cidr, inside, services } of ranges) {
    if (inside.length === 0) continue;
    const what = `the ServiceCIDR ${cidr} contains ${inside.join(", ")}`;
    const where = `ServiceCIDR ${cidr}`;
    yield finding("service-cidr-overlaps", { what, where, services: [...services] });
  }
}

/** Names the contents of a range, without the endpoints of Services. */
function knownInside(
  cidr: string,
  { configuration, apiServerAddresses = [] }: NodeFacts,
  { node }: ObjectFacts,
): string[] {
  const ranges = new Set([...configuration.clusterCIDRs, ...node?.podCIDRs ?? []]);
  const inside = (addresses: readonly string[]) =>
    addresses.filter((address) => cidrContains(cidr, address));
  return [
    ...inside(apiServerAddresses).map((each) => `the API server ${each}`),
    ...inside(node?.addresses ?? []).map((each) => `this node's address ${each}`),
    ...[...ranges].filter((range) => cidrContains(cidr, range)).map((each) => `pods (${each})`),
  ].slice(0, MOST_NAMED);
}

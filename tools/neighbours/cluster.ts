/**
 * The cluster of the neighbours' runs: two pods here, one elsewhere, Services of each kind, and the
 * packets that must pass.
 *
 * @module
 */
import type { ApiObject } from "../../tests/support/api_store.ts";
import type { Network, Protocol } from "../../tests/support/network.ts";
import type { Topology } from "../../tests/support/topology.ts";

/** Addresses of the node, the pods, another node and a client outside. */
export const TOPOLOGY: Topology = {
  node: ["192.168.77.2", "fd77::2"],
  hosts: {
    pod1: ["10.244.0.11", "fd44::11"],
    pod2: ["10.244.0.12", "fd44::12"],
    pod3: ["10.244.1.11", "fd44:0:0:1::11"],
    api: ["192.168.77.3", "fd77::3"],
    client: ["198.51.100.9", "203.0.113.9"],
  },
};

/** The pod ranges, for `clusterCIDR`. */
export const CLUSTER_CIDR = "10.244.0.0/16,fd44::/48";
/** The API server's host and address. */
export const API = { host: "api", address: "192.168.77.3" } as const;

const NODE_OF: Readonly<Record<string, string>> = { pod3: "node-2", api: "node-2" };

interface ServiceOptions {
  readonly clusterIP: string;
  readonly endpoints: readonly string[];
  readonly port?: number;
  readonly targetPort?: number;
  readonly protocol?: "TCP" | "UDP";
  readonly nodePort?: number;
  readonly loadBalancerIP?: string;
  readonly namespace?: string;
  /** More fields of `spec`. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

function service(name: string, options: ServiceOptions): ApiObject[] {
  const { clusterIP, endpoints, nodePort, loadBalancerIP: ip, namespace = "shop" } = options;
  const { port = 80, targetPort = 8080, protocol = "TCP", spec } = options;
  const isIpv6 = clusterIP.includes(":");
  const type = ip ? "LoadBalancer" : nodePort ? "NodePort" : "ClusterIP";
  const addressOf = (host: string) =>
    [...TOPOLOGY.hosts[host] ?? TOPOLOGY.node].find((each) => each.includes(":") === isIpv6);
  return [{
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name },
    spec: {
      type,
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: [isIpv6 ? "IPv6" : "IPv4"],
      selector: { app: name },
      ports: [{ name: "x", port, targetPort, protocol, ...(nodePort && { nodePort }) }],
      // The API server's defaults: kube-proxy crashes without them.
      internalTrafficPolicy: "Cluster",
      ...(type !== "ClusterIP" && { externalTrafficPolicy: "Cluster" }),
      sessionAffinity: "None",
      ...spec,
    },
    ...(ip !== undefined && { status: { loadBalancer: { ingress: [{ ip, ipMode: "VIP" }] } } }),
  }, {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { namespace, name, labels: { "kubernetes.io/service-name": name } },
    addressType: isIpv6 ? "IPv6" : "IPv4",
    ports: [{ name: "x", port: targetPort, protocol }],
    endpoints: endpoints.map((host) => ({
      addresses: [addressOf(host)],
      nodeName: NODE_OF[host] ?? "node-1",
      conditions: { ready: true, serving: true, terminating: false },
    })),
  }];
}

function node(name: string, podCIDRs: readonly string[], addresses: readonly string[]): ApiObject {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "kubernetes.io/hostname": name } },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

const HERE = ["pod1", "pod2"];
const PODS = [...HERE, "pod3"];
const DNS = { port: 53, targetPort: 8053, protocol: "UDP" } as const;

/** The objects of the API server. */
export const OBJECTS: readonly ApiObject[] = [
  node("node-1", ["10.244.0.0/24", "fd44::/64"], TOPOLOGY.node),
  node("node-2", ["10.244.1.0/24", "fd44:0:0:1::/64"], ["192.168.77.3", "fd77::3"]),
  ...service("kubernetes", {
    namespace: "default",
    clusterIP: "10.96.0.1",
    port: 443,
    targetPort: 6443,
    endpoints: ["api"],
  }),
  ...service("web", { clusterIP: "10.96.0.10", endpoints: HERE, nodePort: 30080 }),
  ...service("hairpin", { clusterIP: "10.96.0.11", endpoints: ["pod1"] }),
  ...service("remote", { clusterIP: "10.96.0.12", endpoints: ["pod3"], nodePort: 30082 }),
  ...service("local", {
    clusterIP: "10.96.0.13",
    endpoints: ["pod1", "pod3"],
    nodePort: 30083,
    loadBalancerIP: "203.0.113.83",
    spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32083 },
  }),
  ...service("none", { clusterIP: "10.96.0.14", endpoints: [], nodePort: 30084 }),
  ...service("external", {
    clusterIP: "10.96.0.15",
    endpoints: ["pod2"],
    spec: { externalIPs: ["203.0.113.85"] },
  }),
  ...service("ranges", {
    clusterIP: "10.96.0.16",
    endpoints: HERE,
    nodePort: 30086,
    loadBalancerIP: "203.0.113.86",
    spec: { loadBalancerSourceRanges: ["198.51.100.0/24"] },
  }),
  ...service("sticky", {
    clusterIP: "10.96.0.17",
    endpoints: PODS,
    nodePort: 30087,
    spec: {
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
    },
  }),
  ...service("dns", { ...DNS, clusterIP: "10.96.0.18", endpoints: HERE, nodePort: 30088 }),
  ...service("other-host", {
    targetPort: 6444,
    clusterIP: "10.96.0.20",
    endpoints: ["api"],
    nodePort: 30090,
  }),
  ...service("this-host", {
    targetPort: 6444,
    clusterIP: "10.96.0.21",
    endpoints: ["node"],
    nodePort: 30091,
  }),
  ...service("here", { clusterIP: "10.96.0.22", endpoints: ["pod2"], nodePort: 30092 }),
  ...service("none-udp", { ...DNS, clusterIP: "10.96.0.24", endpoints: [] }),
  ...service("web6", { clusterIP: "fd96::10", endpoints: HERE }),
  ...service("remote6", { clusterIP: "fd96::12", endpoints: ["pod3"], nodePort: 30097 }),
];

/** Opens the servers of all pods and hosts. */
export function serveAll(network: Network): void {
  for (const host of PODS) {
    network.serve(host, { protocol: "tcp", port: 8080 });
    network.serve(host, { protocol: "udp", port: 8053 });
  }
  for (const host of ["node", "api"]) network.serve(host, { protocol: "tcp", port: 6444 });
}

/** A packet, and its right result. */
export interface Flow {
  readonly name: string;
  readonly from: string;
  readonly source?: string;
  readonly protocol?: Protocol;
  readonly address: string;
  readonly port: number;
  readonly times?: number;
  /** The hosts that may answer. */
  readonly to: readonly string[] | "reject" | "drop";
  /** True if all connections must reach one host. */
  readonly isSticky?: true;
  /** The mode that has it, if one alone does. */
  readonly only?: "nftables";
}

const NODE_IP = "192.168.77.2";

/** Flows by client: a pod, the node itself, a client outside. */
export const FLOWS: readonly Flow[] = [
  ...from("pod1", {
    "control: pod elsewhere": ["10.244.1.11", 8080, ["pod3"]],
    "control: outside": ["192.0.2.99", 8080, ["world"]],
    "cluster IP, pod elsewhere": ["10.96.0.12", 80, ["pod3"]],
    "cluster IP, pod here": ["10.96.0.22", 80, ["pod2"]],
    "cluster IP, two pods": ["10.96.0.10", 80, HERE, { times: 6 }],
    "cluster IP, hairpin": ["10.96.0.11", 80, ["pod1"]],
    "cluster IP, another host": ["10.96.0.20", 80, ["api"]],
    "cluster IP, this host": ["10.96.0.21", 80, ["node"]],
    "node port": [NODE_IP, 30082, ["pod3"]],
    "external IP": ["203.0.113.85", 80, ["pod2"]],
    "load-balancer IP, policy Local": ["203.0.113.83", 80, ["pod1", "pod3"]],
    "session affinity": ["10.96.0.17", 80, PODS, { times: 8, isSticky: true }],
    "UDP": ["10.96.0.18", 53, HERE, { times: 3, protocol: "udp" }],
    "no endpoints": ["10.96.0.14", 80, "reject"],
    "no endpoints, UDP": ["10.96.0.24", 53, "reject", { protocol: "udp" }],
    "unused port of a cluster IP": ["10.96.0.22", 81, "reject", { only: "nftables" }],
    "IPv6, pods here": ["fd96::10", 80, HERE, { times: 3 }],
    "IPv6, pod elsewhere": ["fd96::12", 80, ["pod3"]],
  }),
  ...from("node", {
    "control: pod": ["10.244.0.11", 8080, ["pod1"]],
    "control: outside": ["192.0.2.99", 8080, ["world"]],
    "cluster IP, pod here": ["10.96.0.22", 80, ["pod2"]],
    "cluster IP, pod elsewhere": ["10.96.0.12", 80, ["pod3"]],
    "cluster IP, this host": ["10.96.0.21", 80, ["node"]],
    "own node port": [NODE_IP, 30082, ["pod3"]],
    "external IP": ["203.0.113.85", 80, ["pod2"]],
    "UDP": ["10.96.0.18", 53, HERE, { times: 3, protocol: "udp" }],
    "no endpoints": ["10.96.0.14", 80, "reject"],
  }),
  ...from("client", {
    "node port, pod here": [NODE_IP, 30092, ["pod2"]],
    "node port, pod elsewhere": [NODE_IP, 30082, ["pod3"]],
    "node port, this host": [NODE_IP, 30091, ["node"]],
    "node port, another host": [NODE_IP, 30090, ["api"]],
    "node port, policy Local": [NODE_IP, 30083, ["pod1"]],
    "external IP": ["203.0.113.85", 80, ["pod2"]],
    "load-balancer IP, policy Local": ["203.0.113.83", 80, ["pod1"]],
    "load-balancer IP, in the source ranges": ["203.0.113.86", 80, HERE],
    "load-balancer IP, not in the source ranges": [
      "203.0.113.86",
      80,
      "drop",
      { source: "203.0.113.9" },
    ],
    "session affinity": [NODE_IP, 30087, PODS, { times: 8, isSticky: true }],
    "UDP node port": [NODE_IP, 30088, HERE, { times: 3, protocol: "udp" }],
    "no endpoints, node port": [NODE_IP, 30084, "reject"],
  }),
  ...from("api", { "IPv6 node port": ["fd77::2", 30097, ["pod3"]] }),
];

type FlowRow = readonly [
  address: string,
  port: number,
  to: Flow["to"],
  more?: Partial<Pick<Flow, "times" | "protocol" | "isSticky" | "only" | "source">>,
];

function from(host: string, rows: Readonly<Record<string, FlowRow>>): Flow[] {
  return Object.entries(rows).map(([row, [address, port, to, more]]) => {
    const name = `${host}: ${row}`;
    return { name, from: host, address, port, to, ...more };
  });
}

/**
 * Sends all flows of a mode at the same time.
 *
 * @returns the flows that went wrong: their names, and what they got
 */
export async function tryFlows(network: Network, flows: readonly Flow[]): Promise<string[]> {
  const results = await Promise.all(flows.map(async (flow) => {
    if (await tryFlow(network, flow, 1_500) === undefined) return undefined;
    // The neighbour has just changed its rules, or the machine is loaded.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    return await tryFlow(network, flow, 4_000);
  }));
  return results.filter((result) => result !== undefined);
}

async function tryFlow(network: Network, flow: Flow, timeout: number): Promise<string | undefined> {
  const { name, to, isSticky } = flow;
  const outcomes = await network.connect({ ...flow, timeout });
  const got = outcomes.map((each) => each.type === "answer" ? each.answer.host : each.type);
  const isRight = got.every((each) => typeof to === "string" ? each === to : to.includes(each)) &&
    (!isSticky || new Set(got).size === 1);
  return isRight ? undefined : `${name}: ${[...new Set(got)].sort().join(", ")}`;
}

/**
 * The cluster of the neighbours' runs: two pods here, one elsewhere, Services of each kind, and the
 * packets that must pass.
 *
 * @module
 */
import type { ApiObject } from "../../tests/support/api_store.ts";
import { node, service, type ServiceFields, slice } from "../../tests/support/cluster.ts";
import type { ConnectRequest, Network } from "../../tests/support/network.ts";
import { addressesOf, NODE, type Topology } from "../../tests/support/topology.ts";

const NODE_IP = "192.168.77.2";
/** The API server's host and address. */
export const API = { host: "api", address: "192.168.77.3" } as const;
/** The port of the servers of all pods and hosts, by TCP and UDP. */
export const TARGET_PORT = 8080;

/** Addresses of the node, the pods, another node and a client outside. */
export const TOPOLOGY: Topology = {
  node: [NODE_IP, "fd77::2"],
  hosts: {
    pod1: ["10.244.0.11", "fd44::11"],
    pod2: ["10.244.0.12", "fd44::12"],
    pod3: ["10.244.1.11", "fd44:0:0:1::11"],
    api: [API.address, "fd77::3"],
    client: ["198.51.100.9", "203.0.113.9"],
  },
};

const HERE = ["pod1", "pod2"];
const PODS = [...HERE, "pod3"];

/** A Service. Other fields go into its spec. */
interface ServiceRow extends ServiceFields {
  readonly clusterIP: string;
  readonly endpoints: readonly string[];
  /** @default 80 */
  readonly port?: number;
  readonly protocol?: "UDP";
  readonly nodePort?: number;
}

const POLICY_LOCAL = { externalTrafficPolicy: "Local", healthCheckNodePort: 32083 };
const LOCAL = { ingress: ["203.0.113.83"], ...POLICY_LOCAL };
const RANGES = { ingress: ["203.0.113.86"], loadBalancerSourceRanges: ["198.51.100.0/24"] };
const CLIENT_IP = { clientIP: { timeoutSeconds: 10_800 } };
const STICKY = { sessionAffinity: "ClientIP", sessionAffinityConfig: CLIENT_IP };

const SERVICES: Readonly<Record<string, ServiceRow>> = {
  "kubernetes": { namespace: "default", clusterIP: "10.96.0.1", port: 443, endpoints: ["api"] },
  "web": { clusterIP: "10.96.0.10", endpoints: HERE, nodePort: 30080 },
  "hairpin": { clusterIP: "10.96.0.11", endpoints: ["pod1"] },
  "remote": { clusterIP: "10.96.0.12", endpoints: ["pod3"], nodePort: 30082 },
  "local": { clusterIP: "10.96.0.13", endpoints: ["pod1", "pod3"], nodePort: 30083, ...LOCAL },
  "none": { clusterIP: "10.96.0.14", endpoints: [], nodePort: 30084 },
  "external": { clusterIP: "10.96.0.15", endpoints: ["pod2"], externalIPs: ["203.0.113.85"] },
  "ranges": { clusterIP: "10.96.0.16", endpoints: HERE, nodePort: 30086, ...RANGES },
  "sticky": { clusterIP: "10.96.0.17", endpoints: PODS, nodePort: 30087, ...STICKY },
  "dns": { clusterIP: "10.96.0.18", endpoints: HERE, port: 53, protocol: "UDP", nodePort: 30088 },
  "other-host": { clusterIP: "10.96.0.20", endpoints: ["api"], nodePort: 30090 },
  "this-host": { clusterIP: "10.96.0.21", endpoints: ["node"], nodePort: 30091 },
  "here": { clusterIP: "10.96.0.22", endpoints: ["pod2"], nodePort: 30092 },
  "none-udp": { clusterIP: "10.96.0.24", endpoints: [], port: 53, protocol: "UDP" },
  "web6": { clusterIP: "fd96::10", endpoints: HERE },
  "remote6": { clusterIP: "fd96::12", endpoints: ["pod3"], nodePort: 30097 },
};

function serviceObjects(name: string, row: ServiceRow): ApiObject[] {
  const { namespace = "shop", endpoints, port = 80, protocol = "TCP", nodePort, ...fields } = row;
  const isIpv6 = row.clusterIP.includes(":");
  const type = row.ingress ? "LoadBalancer" : nodePort ? "NodePort" : "ClusterIP";
  const placeOf = (host: string) => {
    const address = addressesOf(TOPOLOGY, host, true)[isIpv6 ? 1 : 0];
    return `${address}@${["pod3", "api"].includes(host) ? "node-2" : "node-1"}`;
  };
  return [
    service({
      namespace,
      name,
      type,
      clusterIPs: [row.clusterIP],
      ipFamilies: [isIpv6 ? "IPv6" : "IPv4"],
      selector: { app: name },
      ports: [{ name: "x", port, targetPort: TARGET_PORT, protocol, ...nodePort && { nodePort } }],
      // The API server's defaults: kube-proxy crashes without them.
      internalTrafficPolicy: "Cluster",
      ...type !== "ClusterIP" && { externalTrafficPolicy: "Cluster" },
      sessionAffinity: "None",
      ...fields,
    }),
    slice({
      namespace,
      service: name,
      ports: [{ name: "x", port: TARGET_PORT, protocol }],
      endpoints: endpoints.map(placeOf),
    }),
  ];
}

const POD_RANGES: Readonly<Record<string, readonly string[]>> = {
  "node-1": ["10.244.0.0/24", "fd44::/64"],
  "node-2": ["10.244.1.0/24", "fd44:0:0:1::/64"],
};

/** The objects of the API server. */
export const OBJECTS: readonly ApiObject[] = [
  ...Object.entries(POD_RANGES).map(([name, podCIDRs]) =>
    node({
      name,
      labels: { "kubernetes.io/hostname": name },
      spec: { podCIDR: podCIDRs[0], podCIDRs },
      addresses: addressesOf(TOPOLOGY, name === "node-1" ? NODE : API.host, true),
    })
  ),
  ...Object.entries(SERVICES).flatMap(([name, row]) => serviceObjects(name, row)),
];

/** A packet, and its right result. */
export interface Flow extends ConnectRequest {
  readonly name: string;
  /** The hosts that may answer. */
  readonly to: readonly string[] | "reject" | "drop";
  /** True if all connections must reach one host. */
  readonly isSticky?: true;
  /** The mode that has it, if one alone does. */
  readonly only?: "nftables";
}

/** The client's address that is not in the source ranges. */
const ELSEWHERE = { source: "203.0.113.9" };

type FlowRow = readonly [address: string, port: number, to: Flow["to"], more?: Partial<Flow>];

/** Flows by client: a pod, the node itself, a client outside, another node. */
const ROWS: Readonly<Record<string, Readonly<Record<string, FlowRow>>>> = {
  "pod1": {
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
  },
  "node": {
    "control: pod": ["10.244.0.11", 8080, ["pod1"]],
    "control: outside": ["192.0.2.99", 8080, ["world"]],
    "cluster IP, pod here": ["10.96.0.22", 80, ["pod2"]],
    "cluster IP, pod elsewhere": ["10.96.0.12", 80, ["pod3"]],
    "cluster IP, this host": ["10.96.0.21", 80, ["node"]],
    "own node port": [NODE_IP, 30082, ["pod3"]],
    "external IP": ["203.0.113.85", 80, ["pod2"]],
    "UDP": ["10.96.0.18", 53, HERE, { times: 3, protocol: "udp" }],
    "no endpoints": ["10.96.0.14", 80, "reject"],
  },
  "client": {
    "node port, pod here": [NODE_IP, 30092, ["pod2"]],
    "node port, pod elsewhere": [NODE_IP, 30082, ["pod3"]],
    "node port, this host": [NODE_IP, 30091, ["node"]],
    "node port, another host": [NODE_IP, 30090, ["api"]],
    "node port, policy Local": [NODE_IP, 30083, ["pod1"]],
    "external IP": ["203.0.113.85", 80, ["pod2"]],
    "load-balancer IP, policy Local": ["203.0.113.83", 80, ["pod1"]],
    "load-balancer IP, in the source ranges": ["203.0.113.86", 80, HERE],
    "load-balancer IP, not in the source ranges": ["203.0.113.86", 80, "drop", ELSEWHERE],
    "session affinity": [NODE_IP, 30087, PODS, { times: 8, isSticky: true }],
    "UDP node port": [NODE_IP, 30088, HERE, { times: 3, protocol: "udp" }],
    "no endpoints, node port": [NODE_IP, 30084, "reject"],
  },
  "api": { "IPv6 node port": ["fd77::2", 30097, ["pod3"]] },
};

/** All flows. */
export const FLOWS: readonly Flow[] = Object.entries(ROWS).flatMap(([from, rows]) =>
  Object.entries(rows).map(([row, [address, port, to, more]]) => (
    { name: `${from}: ${row}`, from, address, port, to, ...more }
  ))
);

/** Sends flows at the same time. @returns those that went wrong: their names, and what they got */
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

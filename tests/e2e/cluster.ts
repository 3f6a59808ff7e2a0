/**
 * The cluster of the end-to-end tests: who is there, at which addresses, and the API objects that
 * describe it. The IP family is a parameter.
 */
import type { Family } from "../../lib/model/values/address.ts";
import {
  node,
  service as buildService,
  serviceCIDR,
  slice as buildSlice,
  type SliceFields,
} from "../support/cluster.ts";
import type { Topology } from "../support/topology.ts";

/** Hosts that may be endpoints, and the Node that each is on. */
const NODE_OF = { local1: "node1", local2: "node1", remote1: "node2", remote2: "node3" } as const;

/** A host that may be an endpoint. */
export type EndpointHost = keyof typeof NODE_OF;

/** All of them. */
export const ENDPOINT_HOSTS = ["local1", "local2", "remote1", "remote2"] as const;

/** `pod` is a pod of the node that is no endpoint; the clients are outside of the cluster. */
export type Host = EndpointHost | "pod" | "client" | "client2" | "node";

/** The addresses of one family. */
export interface Addresses extends Readonly<Record<Host, string>> {
  readonly family: Family;
  /** The node's other address. */
  readonly nodeSecond: string;
  readonly loopback: string;
  readonly clusterIP: string;
  readonly clusterIP2: string;
  /** An address of the ServiceCIDR that no Service has. */
  readonly unallocated: string;
  readonly loadBalancer: string;
  readonly loadBalancer2: string;
  readonly externalIP: string;
  readonly clusterCIDR: string;
  readonly podCIDR: string;
  readonly serviceCIDR: string;
  /** Contain `client` and `client2`, each alone. */
  readonly clientCIDR: string;
  readonly client2CIDR: string;
  /** Contains the node's second address. */
  readonly nodeSecondCIDR: string;
  readonly everyAddress: string;
}

/** The addresses of each family. */
export const ADDRESSES: Readonly<Record<Family, Addresses>> = {
  4: {
    family: 4,
    pod: "10.244.0.10",
    local1: "10.244.0.11",
    local2: "10.244.0.12",
    remote1: "10.244.1.11",
    remote2: "10.244.2.11",
    client: "203.0.113.10",
    client2: "198.51.100.10",
    node: "192.168.0.2",
    nodeSecond: "192.168.1.2",
    loopback: "127.0.0.1",
    clusterIP: "10.96.0.10",
    clusterIP2: "10.96.0.20",
    unallocated: "10.96.0.99",
    loadBalancer: "192.0.2.10",
    loadBalancer2: "192.0.2.20",
    externalIP: "192.0.2.30",
    clusterCIDR: "10.244.0.0/16",
    podCIDR: "10.244.0.0/24",
    serviceCIDR: "10.96.0.0/16",
    clientCIDR: "203.0.113.0/24",
    client2CIDR: "198.51.100.0/24",
    nodeSecondCIDR: "192.168.1.0/24",
    everyAddress: "0.0.0.0/0",
  },
  6: {
    family: 6,
    pod: "fd00:10:244::10",
    local1: "fd00:10:244::11",
    local2: "fd00:10:244::12",
    remote1: "fd00:10:244:1::11",
    remote2: "fd00:10:244:2::11",
    client: "2001:db8:203::10",
    client2: "2001:db8:198::10",
    node: "2001:db8:0:1::2",
    nodeSecond: "2001:db8:0:2::2",
    loopback: "::1",
    clusterIP: "fd00:10:96::10",
    clusterIP2: "fd00:10:96::20",
    unallocated: "fd00:10:96::99",
    loadBalancer: "2001:db8:192::10",
    loadBalancer2: "2001:db8:192::20",
    externalIP: "2001:db8:192::30",
    clusterCIDR: "fd00:10:244::/48",
    podCIDR: "fd00:10:244::/64",
    serviceCIDR: "fd00:10:96::/112",
    clientCIDR: "2001:db8:203::/64",
    client2CIDR: "2001:db8:198::/64",
    nodeSecondCIDR: "2001:db8:0:2::/64",
    everyAddress: "::/0",
  },
};

const HOSTS = ["pod", "local1", "local2", "remote1", "remote2", "client", "client2"] as const;

/** Both families' network. */
export const TOPOLOGY: Topology = {
  node: [4, 6].flatMap((family) => {
    const { node, nodeSecond } = ADDRESSES[family as Family];
    return [node, nodeSecond];
  }),
  hosts: Object.fromEntries(HOSTS.map((host) => [host, [ADDRESSES[4][host], ADDRESSES[6][host]]])),
};

/** An object as in a manifest. */
export type Manifest = Readonly<Record<string, unknown>>;

/** The port that a Service of these tests has by default, and its node port. */
export const PORT = 80;
export const NODE_PORT = 30_080;
/** The ports on which every host listens. */
export const TARGET_PORT = 8080;
export const TARGET_PORT2 = 9090;

/** nftables rules of an endpoint that drop what comes in for its port. */
export const DROP_TARGET_PORT = `table inet drops {
  chain input { type filter hook input priority 0; tcp dport ${TARGET_PORT} drop; }
}
`;

/** The differences from a ClusterIP Service `shop/web` with port 80 over TCP and UDP. */
export interface ServiceOptions {
  readonly name?: string;
  readonly created?: string;
  /** Fields of `spec`. */
  readonly spec?: Manifest;
  readonly ingress?: readonly Manifest[];
}

/** A Service; `spec.type` NodePort and LoadBalancer give it the node port 30080. */
export function service(a: Addresses, options: ServiceOptions = {}): Manifest {
  const { name = "web", created = "2024-01-01T00:00:00Z", spec = {}, ingress } = options;
  const hasNodePort = spec.type === "NodePort" || spec.type === "LoadBalancer";
  const ports = ["TCP", "UDP"].map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: PORT,
    targetPort: TARGET_PORT,
    ...(hasNodePort && { nodePort: NODE_PORT }),
  }));
  return {
    ...buildService({
      namespace: "shop",
      name,
      metadata: { creationTimestamp: created, uid: crypto.randomUUID() },
      type: "ClusterIP",
      clusterIP: a.clusterIP,
      clusterIPs: [spec.clusterIP ?? a.clusterIP],
      ipFamilies: [`IPv${a.family}`],
      ports,
      ...spec,
    }),
    status: { loadBalancer: ingress ? { ingress } : {} },
  };
}

/** An endpoint that is more than ready. */
export interface EndpointOptions {
  readonly host: EndpointHost;
  readonly conditions?: Manifest;
  readonly hints?: Manifest;
  /** False: the slice does not say on which node it is. */
  readonly hasNode?: boolean;
}

/** The differences from the slice `web-1` of `shop/web`, with the ports `tcp` and `udp`. */
export type SliceOptions = Omit<SliceFields, "endpoints">;

/** An EndpointSlice. */
export function slice(
  a: Addresses,
  endpoints: readonly (EndpointHost | EndpointOptions)[],
  options: SliceOptions = {},
): Manifest {
  return buildSlice({
    namespace: "shop",
    addressType: `IPv${a.family}`,
    ports: slicePorts(),
    endpoints: endpoints.map((each) => endpointEntry(a, each)),
    ...options,
  });
}

/** The ports `tcp` and `udp` of a slice. */
export function slicePorts(port = TARGET_PORT): Manifest[] {
  return ["TCP", "UDP"].map((protocol) => ({ name: protocol.toLowerCase(), protocol, port }));
}

function endpointEntry(a: Addresses, endpoint: EndpointHost | EndpointOptions): Manifest {
  const { host, conditions = {}, hints, hasNode = true } = typeof endpoint === "string"
    ? { host: endpoint }
    : endpoint;
  return {
    addresses: [a[host]],
    targetRef: { kind: "Pod", name: host },
    conditions: { ready: true, ...conditions },
    ...(hasNode && { nodeName: NODE_OF[host] }),
    ...(hints && { hints }),
  };
}

/** The Node `node1` in zone `zone-a`, and the cluster's ServiceCIDR, of both families; `a`'s is primary. */
export function clusterObjects(a: Addresses): Manifest[] {
  const families = [a, ADDRESSES[a.family === 4 ? 6 : 4]];
  return [
    node({
      name: "node1",
      labels: { "topology.kubernetes.io/zone": "zone-a" },
      spec: { podCIDR: a.podCIDR, podCIDRs: families.map((f) => f.podCIDR) },
      addresses: families.map((f) => f.node),
    }),
    serviceCIDR({ cidrs: families.map((f) => f.serviceCIDR) }),
  ];
}

/** A KubeProxyConfiguration for `node1`. */
export function configuration(a: Addresses, changes: Manifest = {}): Manifest {
  const families = [a, ADDRESSES[a.family === 4 ? 6 : 4]];
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    hostnameOverride: "node1",
    clusterCIDR: families.map((f) => f.clusterCIDR).join(","),
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
    ...changes,
  };
}

/**
 * A Service with a thousand endpoints that no packet gets to, of IPv4.
 *
 * @param index its number, up to 63
 */
export function largeService(index: number): Manifest[] {
  const a = ADDRESSES[4];
  const name = `large-${index}`;
  const address = (i: number) => `198.18.${4 * index + (i >> 8)}.${i & 255}`;
  const ports = (port: number) => [{ name: "tcp", protocol: "TCP", port }];
  return [
    service(a, { name, spec: { clusterIP: `10.96.200.${index + 1}`, ports: ports(PORT) } }),
    {
      ...slice(a, [], { service: name, ports: ports(8080) }),
      endpoints: Array.from({ length: 1_000 }, (_, i) => ({ addresses: [address(i)] })),
    },
  ];
}

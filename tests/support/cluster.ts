/** Builds API objects: a Service, its slices, a Node, a ServiceCIDR; and clusters of any size. */
import type { Endpoint, EndpointSlice, Node, Service } from "../../lib/model/cluster/objects.ts";
import type { ServiceConnections } from "../../lib/model/connections.ts";
import type { DesiredServicePort, Destination } from "../../lib/model/kernel/desired.ts";
import type { ApiObject } from "./api_store.ts";

/** Fields of an object, of its spec or of its metadata. */
export type Fields = Readonly<Record<string, unknown>>;

/** A Service; what is not named here goes into its spec. */
export interface ServiceFields extends Fields {
  /** @default "default" */
  readonly namespace?: string;
  /** @default "web" */
  readonly name?: string;
  readonly metadata?: Fields;
  /** Its load-balancer IPs. */
  readonly ingress?: readonly string[];
}

/** Builds a Service, by default with cluster IP 10.96.0.1 and port 80. */
export function service(fields: ServiceFields = {}): ApiObject {
  const { namespace = "default", name = "web", metadata, ingress, ...spec } = fields;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name, ...metadata },
    spec: { clusterIP: "10.96.0.1", ports: [{ port: 80 }], ...spec },
    ...ingress && { status: { loadBalancer: { ingress: ingress.map((ip) => ({ ip })) } } },
  };
}

/** An EndpointSlice; what is not named here is a field of the slice. */
export interface SliceFields extends Fields {
  /** @default "default" */
  readonly namespace?: string;
  /** @default "web" */
  readonly service?: string;
  /** By default the Service's name with `-1`. */
  readonly name?: string;
  readonly metadata?: Fields;
  readonly labels?: Readonly<Record<string, string>>;
  /** `address` is on node-2, `address@node` on that node. */
  readonly endpoints?: readonly (string | Fields)[];
}

/** Builds a slice, by default of port 8080, of the IP family of its first endpoint. */
export function slice(fields: SliceFields = {}): ApiObject {
  const {
    namespace = "default",
    service = "web",
    name = `${service}-1`,
    metadata,
    labels,
    ...rest
  } = fields;
  const endpoints = (fields.endpoints ?? []).map((each) =>
    typeof each === "string" ? endpoint(each) : each
  );
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace,
      name,
      labels: { "kubernetes.io/service-name": service, ...labels },
      ...metadata,
    },
    addressType: `${endpoints[0]?.["addresses"]}`.includes(":") ? "IPv6" : "IPv4",
    ports: [{ port: 8080 }],
    ...rest,
    endpoints,
  };
}

/** Builds an entry of a slice from `address` or `address@node`. */
export function endpoint(text: string, fields: Fields = {}): Fields {
  const [address, nodeName = "node-2"] = text.split("@");
  return { addresses: [address], nodeName, ...fields };
}

/** A Node; what is not named here goes into its metadata. */
export interface NodeFields extends Fields {
  /** @default "node-1" */
  readonly name?: string;
  /** Its internal addresses. */
  readonly addresses?: readonly string[];
  readonly spec?: Fields;
}

/** Builds a Node. */
export function node(fields: NodeFields = {}): ApiObject {
  const { name = "node-1", addresses = [], spec = {}, ...metadata } = fields;
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, ...metadata },
    spec,
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

/** Builds a ServiceCIDR. */
export function serviceCIDR(
  { name = "kubernetes", cidrs }: { readonly name?: string; readonly cidrs: readonly string[] },
): ApiObject {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name },
    spec: { cidrs },
  };
}

/** Builds a decoded Service without addresses and ports. */
export function modelService(fields: Partial<Service> = {}): Service {
  return {
    namespace: "default",
    name: "web",
    uid: "",
    created: 0,
    type: "ClusterIP",
    hasSelector: true,
    clusterIPs: [],
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: [],
    ports: [],
    internalTrafficPolicy: "Cluster",
    externalTrafficPolicy: "Cluster",
    affinitySeconds: 0,
    healthCheckNodePort: 0,
    ...fields,
  };
}

/** Builds a decoded slice without endpoints and ports. */
export function modelSlice(fields: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    namespace: "default",
    name: "web-1",
    serviceName: "web",
    family: 4,
    ports: [],
    endpoints: [],
    lastChangeTriggerTime: 0,
    ...fields,
  };
}

/** Builds a decoded endpoint that is ready. */
export function modelEndpoint(address: string, fields: Partial<Endpoint> = {}): Endpoint {
  return {
    address,
    nodeName: "node-1",
    ready: true,
    serving: true,
    terminating: false,
    zoneHints: [],
    nodeHints: [],
    ...fields,
  };
}

/** Builds a decoded Node. */
export function modelNode(fields: Partial<Node> = {}): Node {
  return {
    name: "node-1",
    uid: "",
    addresses: [],
    podCIDRs: [],
    zone: "",
    deleting: false,
    ...fields,
  };
}

/** Builds the service port shop/web:http with cluster IP 10.96.0.10 and port 80. */
export function servicePort(fields: Partial<DesiredServicePort> = {}): DesiredServicePort {
  return {
    name: "shop/web:http",
    family: 4,
    protocol: "tcp",
    port: 80,
    clusterIPs: ["10.96.0.10"],
    externalIPs: [],
    loadBalancerIPs: [],
    nodePort: 0,
    sourceRanges: [],
    internalTrafficPolicy: "Cluster",
    externalTrafficPolicy: "Cluster",
    affinitySeconds: 0,
    clusterEndpoints: [],
    localEndpoints: [],
    hasEndpoints: true,
    ...fields,
  };
}

/** Builds the connections to shop/web:80 by its cluster IP. */
export function connectionsTo(fields: Partial<ServiceConnections> = {}): ServiceConnections {
  return {
    namespace: "shop",
    service: "web",
    port: 80,
    protocol: "tcp",
    frontend: "clusterIP",
    connections: 1,
    perSecond: 0,
    ...fields,
  };
}

/** Builds an endpoint of a service port, by default at port 8080 of another node. */
export function destination(address: string, fields: Partial<Destination> = {}): Destination {
  return { address, port: 8080, local: false, hairpin: false, ...fields };
}

/** How large a cluster is. */
export interface ClusterSize {
  /** Up to 1,000,000. */
  readonly services: number;
  /** Endpoints of each Service, up to 250. */
  readonly endpoints: number;
}

const NODES = 100;

/** The Services and EndpointSlices of a cluster, always the same for the same size. */
export function* clusterObjects({ services, endpoints }: ClusterSize): Generator<ApiObject> {
  for (let index = 0; index < services; index++) {
    yield serviceObject(index);
    yield sliceObject(index, endpoints);
  }
}

/** Name of the Service with this number. */
export function serviceName(index: number): string {
  return `service-${index}`;
}

function namespaceOf(index: number): string {
  return `namespace-${index % 50}`;
}

/** A Service of type ClusterIP with one port, 80 to 8080, as the API server would send it. */
export function serviceObject(index: number): ApiObject {
  const name = serviceName(index);
  const clusterIP = `10.${96 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
  return service({
    namespace: namespaceOf(index),
    name,
    metadata: {
      uid: crypto.randomUUID(),
      creationTimestamp: "2024-05-01T10:00:00Z",
      labels: { app: name },
    },
    type: "ClusterIP",
    clusterIP,
    clusterIPs: [clusterIP],
    ipFamilies: ["IPv4"],
    ipFamilyPolicy: "SingleStack",
    internalTrafficPolicy: "Cluster",
    sessionAffinity: "None",
    selector: { app: name },
    ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    ingress: [],
  });
}

/**
 * The EndpointSlice of that Service.
 *
 * @param shift other numbers give other addresses
 */
export function sliceObject(index: number, endpoints: number, shift = 0): ApiObject {
  const name = serviceName(index);
  return slice({
    namespace: namespaceOf(index),
    service: name,
    name: `${name}-slice`,
    labels: {
      "app": name,
      "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    },
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    endpoints: Array.from({ length: endpoints }, (_, number) => {
      const pod = (index * endpoints + number + shift) % 4_000_000;
      return {
        addresses: [
          `10.${128 + Math.floor(pod / 62500)}.${Math.floor(pod / 250) % 250}.${pod % 250 + 1}`,
        ],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: `node-${pod % NODES}`,
        zone: `zone-${pod % 3}`,
        targetRef: {
          kind: "Pod",
          namespace: namespaceOf(index),
          name: `${name}-${number}`,
          uid: crypto.randomUUID(),
        },
      };
    }),
  });
}

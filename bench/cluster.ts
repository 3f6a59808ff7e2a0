/**
 * A cluster made up for measuring: objects as a real API server would send them, with all that a
 * node proxy has no use for (managed fields, owner references, target references).
 *
 * @module
 */
import type { ApiObject } from "../tests/support/api_store.ts";

/** The node that signpost is on. */
export const NODE_NAME = "node-1";

/** The range of the pods. */
export const CLUSTER_CIDR = "10.128.0.0/9";

/** Port of every cluster IP. */
export const SERVICE_PORT = 80;

/** Port of every endpoint. */
const TARGET_PORT = 8080;

const SERVICE_CIDR = "10.96.0.0/12";
const FIRST_CLUSTER_IP = 0x0a600001;
const FIRST_ENDPOINT = 0x0a800001;
const FIRST_NEW_ENDPOINT = 0x0ac00001;
const NODES = 100;
const MANAGED_FIELDS = [{
  manager: "kube-controller-manager",
  operation: "Update",
  apiVersion: "discovery.k8s.io/v1",
  time: "2026-01-01T00:00:00Z",
  fieldsType: "FieldsV1",
  fieldsV1: {
    "f:addressType": {},
    "f:endpoints": {},
    "f:metadata": {
      "f:annotations": { ".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {} },
      "f:generateName": {},
      "f:labels": {
        ".": {},
        "f:endpointslice.kubernetes.io/managed-by": {},
        "f:kubernetes.io/service-name": {},
      },
      "f:ownerReferences": { ".": {}, 'k:{"uid":"a"}': {} },
    },
    "f:ports": {},
  },
}];

function serviceName(service: number): string {
  return `service-${service}`;
}

/** A namespace has limits: at 100,000 Services there are more of them. */
const NAMESPACE_SIZE = 30_000;

function namespaceOf(service: number): string {
  const number = Math.floor(service / NAMESPACE_SIZE);
  return number === 0 ? "default" : `default-${number}`;
}

/** The cluster IP of a Service. */
export function clusterIP(service: number): string {
  return formatAddress(FIRST_CLUSTER_IP + service);
}

/** The address that an endpoint has at first. */
function endpointAddress(index: number): string {
  return formatAddress(FIRST_ENDPOINT + index);
}

/** An address that no endpoint has had before. */
export function newAddress(serial: number): string {
  return formatAddress(FIRST_NEW_ENDPOINT + serial);
}

function formatAddress(value: number): string {
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".");
}

/** The objects of a cluster, of which each Service has so many endpoints. */
export function* clusterObjects(
  options: { readonly services: number; readonly endpoints: number },
): Generator<ApiObject> {
  yield node();
  yield { kind: "ServiceCIDR", metadata: { name: "kubernetes" }, spec: { cidrs: [SERVICE_CIDR] } };
  for (let i = 0; i < options.services; i++) {
    yield service(i);
    yield endpointSlice(i, initialAddresses(i, options.endpoints));
  }
}

/** The addresses that the endpoints of a Service have at first. */
export function initialAddresses(service: number, endpoints: number): string[] {
  return Array.from({ length: endpoints }, (_, i) => endpointAddress(service * endpoints + i));
}

function node(): ApiObject {
  return {
    kind: "Node",
    metadata: { name: NODE_NAME, labels: { "topology.kubernetes.io/zone": "zone-1" } },
    spec: { podCIDR: "10.128.0.0/24", podCIDRs: ["10.128.0.0/24"] },
    status: { addresses: [{ type: "InternalIP", address: "192.0.2.1" }] },
  };
}

/** A Service of type ClusterIP with one port. */
function service(index: number): ApiObject {
  const address = clusterIP(index);
  return {
    kind: "Service",
    metadata: {
      name: serviceName(index),
      namespace: namespaceOf(index),
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: {
        "app.kubernetes.io/name": serviceName(index),
        "app.kubernetes.io/part-of": "bench",
      },
      managedFields: MANAGED_FIELDS,
    },
    spec: {
      type: "ClusterIP",
      clusterIP: address,
      clusterIPs: [address],
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      internalTrafficPolicy: "Cluster",
      sessionAffinity: "None",
      selector: { "app.kubernetes.io/name": serviceName(index) },
      ports: [{ name: "http", protocol: "TCP", port: SERVICE_PORT, targetPort: TARGET_PORT }],
    },
    status: { loadBalancer: {} },
  };
}

/** The slice of a Service. */
export function endpointSlice(index: number, addresses: readonly string[]): ApiObject {
  const name = serviceName(index);
  return {
    kind: "EndpointSlice",
    metadata: {
      name: `${name}-0`,
      generateName: `${name}-`,
      namespace: namespaceOf(index),
      generation: 1,
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: {
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
      },
      annotations: { "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z" },
      ownerReferences: [{
        apiVersion: "v1",
        kind: "Service",
        name,
        uid: "00000000-0000-4000-8000-000000000000",
        controller: true,
        blockOwnerDeletion: true,
      }],
      managedFields: MANAGED_FIELDS,
    },
    addressType: "IPv4",
    ports: [{ name: "http", protocol: "TCP", port: TARGET_PORT }],
    endpoints: addresses.map((address, i) =>
      endpoint({ namespace: namespaceOf(index), service: name }, { address, index: index + i })
    ),
  };
}

function endpoint(
  { namespace, service }: { readonly namespace: string; readonly service: string },
  { address, index }: { readonly address: string; readonly index: number },
): Record<string, unknown> {
  return {
    addresses: [address],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: `node-${(index % NODES) + 1}`,
    zone: `zone-${(index % 3) + 1}`,
    targetRef: {
      kind: "Pod",
      namespace,
      name: `${service}-7d4b9c6f58-${address.replaceAll(".", "-")}`,
      uid: "00000000-0000-4000-8000-000000000001",
    },
  };
}

/**
 * Clusters of any size, as API objects.
 *
 * @module
 */
import type { ApiObject } from "./api_store.ts";

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
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name,
      namespace: namespaceOf(index),
      uid: crypto.randomUUID(),
      creationTimestamp: "2024-05-01T10:00:00Z",
      labels: { app: name },
    },
    spec: {
      type: "ClusterIP",
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      internalTrafficPolicy: "Cluster",
      sessionAffinity: "None",
      selector: { app: name },
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    },
    status: { loadBalancer: {} },
  };
}

/**
 * The EndpointSlice of that Service.
 *
 * @param shift other numbers give other addresses
 */
export function sliceObject(index: number, endpoints: number, shift = 0): ApiObject {
  const name = serviceName(index);
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: `${name}-slice`,
      namespace: namespaceOf(index),
      labels: {
        "app": name,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": name,
      },
    },
    addressType: "IPv4",
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
  };
}

/**
 * The Service that most tests look at: `shop/web`, a node port with endpoints on another node.
 *
 * @module
 */
import type { ApiObject } from "./api_store.ts";

/** Cluster IP 10.96.0.10, port 80, node port 30080. */
export const WEB_SERVICE: ApiObject = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { namespace: "shop", name: "web" },
  spec: {
    type: "NodePort",
    clusterIP: "10.96.0.10",
    ports: [{ name: "http", port: 80, nodePort: 30080 }],
  },
};

/** The slice of a Service of the namespace `shop`; all endpoints are on node-2, port 8080. */
export function webSlice(addresses: readonly string[], service = "web"): ApiObject {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace: "shop",
      name: `${service}-1`,
      labels: { "kubernetes.io/service-name": service },
    },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080 }],
    endpoints: addresses.map((address) => ({ addresses: [address], nodeName: "node-2" })),
  };
}

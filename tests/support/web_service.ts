/** The Service that most tests look at: `shop/web`, a node port with endpoints on another node. */
import type { ApiObject } from "./api_store.ts";
import { service as buildService, slice } from "./cluster.ts";

/** Cluster IP 10.96.0.10, port 80, node port 30080. */
export const WEB_SERVICE: ApiObject = buildService({
  namespace: "shop",
  type: "NodePort",
  clusterIP: "10.96.0.10",
  ports: [{ name: "http", port: 80, nodePort: 30080 }],
});

/** The slice of a Service of the namespace `shop`; all endpoints are on node-2, port 8080. */
export function webSlice(addresses: readonly string[], service = "web"): ApiObject {
  const ports = [{ name: "http", port: 8080 }];
  return slice({ namespace: "shop", service, ports, endpoints: addresses });
}

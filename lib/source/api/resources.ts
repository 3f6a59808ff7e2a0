/** Defines the collection of each kind (kubernetes.io/docs/reference/using-api/api-concepts). */
import type { Kind } from "../../model/cluster/objects.ts";
import { HEADLESS, SERVICE_PROXY_NAME } from "../objects/tables.ts";

export interface Resource {
  readonly path: string;
  readonly selectors: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** True if a cluster may lack the resource. */
  readonly optional?: boolean;
}

/** Returns the collection of a kind, with kube-proxy's label selectors (cmd/kube-proxy/app/server.go). */
export function resourceOf(kind: Kind, nodeName: string): Resource {
  const resources: { readonly [K in Kind]: Resource } = {
    // Servers before Kubernetes 1.31 have no field selector for cluster IPs. The decoder ignores headless Services.
    Service: { path: "/api/v1/services", selectors: { labelSelector: `!${SERVICE_PROXY_NAME}` } },
    EndpointSlice: {
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: `!${HEADLESS}` },
    },
    Node: { path: "/api/v1/nodes", selectors: { fieldSelector: `metadata.name=${nodeName}` } },
    // They came with Kubernetes 1.33.
    ServiceCIDR: { path: "/apis/networking.k8s.io/v1/servicecidrs", selectors: {}, optional: true },
  };
  return resources[kind];
}

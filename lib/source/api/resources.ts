/**
 * Where the API server keeps each kind, and which objects of it are asked for.
 *
 * @module
 */
import type { Kind } from "../../model/objects.ts";

/** Label of Services that another proxy looks after. */
export const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** Label of EndpointSlices of headless Services. */
export const HEADLESS = "service.kubernetes.io/headless";

/** A collection of objects and what to take of it. */
export interface Resource {
  readonly path: string;
  /** Label and field selectors, as query parameters. */
  readonly selectors: Readonly<Record<string, string>>;
  /** Whether a cluster may do without it: ServiceCIDRs came with Kubernetes 1.33. */
  readonly optional: boolean;
}

/**
 * The collection of a kind, selected as kube-proxy selects it (cmd/kube-proxy/app/server.go).
 *
 * @param nodeName the only Node that is asked for
 */
export function resourceOf(kind: Kind, nodeName: string): Resource {
  switch (kind) {
    case "Service":
      return {
        path: "/api/v1/services",
        selectors: {
          labelSelector: `!${SERVICE_PROXY_NAME}`,
          fieldSelector: "spec.clusterIP!=None",
        },
        optional: false,
      };
    case "EndpointSlice":
      return {
        path: "/apis/discovery.k8s.io/v1/endpointslices",
        selectors: { labelSelector: `!${HEADLESS}` },
        optional: false,
      };
    case "Node":
      return {
        path: "/api/v1/nodes",
        selectors: { fieldSelector: `metadata.name=${nodeName}` },
        optional: false,
      };
    case "ServiceCIDR":
      return {
        path: "/apis/networking.k8s.io/v1/servicecidrs",
        selectors: {},
        optional: true,
      };
  }
}

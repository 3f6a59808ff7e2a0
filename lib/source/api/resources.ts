/**
 * The API path of each kind, and the selectors of its requests.
 * @module
 */
import type { Decoder, Kind } from "../../model/cluster/objects.ts";
import { fieldAt } from "../../model/values/record.ts";

/** The label of Services that another proxy serves. */
const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** The label of EndpointSlices of headless Services. */
const HEADLESS = "service.kubernetes.io/headless";

/** Query parameters. */
interface Selectors {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** A collection of objects with its selectors. */
export interface Resource {
  readonly path: string;
  readonly selectors: Selectors;
  /** Returns true if the selectors choose an object, for servers that do not apply them. */
  readonly selects: (raw: unknown) => boolean;
  /** True if a cluster may lack the resource: ServiceCIDRs came with Kubernetes 1.33. */
  readonly optional: boolean;
}

/**
 * Returns the collection of a kind, with kube-proxy's selectors (cmd/kube-proxy/app/server.go).
 * @param nodeName the name of the only Node to select
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
        selects: (raw) =>
          !hasLabel(raw, SERVICE_PROXY_NAME) && fieldAt(raw, "spec", "clusterIP") !== "None",
        optional: false,
      };
    case "EndpointSlice":
      return {
        path: "/apis/discovery.k8s.io/v1/endpointslices",
        selectors: { labelSelector: `!${HEADLESS}` },
        selects: (raw) => !hasLabel(raw, HEADLESS),
        optional: false,
      };
    case "Node":
      return {
        path: "/api/v1/nodes",
        selectors: { fieldSelector: `metadata.name=${nodeName}` },
        selects: (raw) => fieldAt(raw, "metadata", "name") === nodeName,
        optional: false,
      };
    case "ServiceCIDR":
      return {
        path: "/apis/networking.k8s.io/v1/servicecidrs",
        selectors: {},
        selects: () => true,
        optional: true,
      };
  }
}

function hasLabel(raw: unknown, name: string): boolean {
  return fieldAt(raw, "metadata", "labels", name) !== undefined;
}

/**
 * Removes the field selector: Kubernetes before 1.31 has none for cluster IPs (kubernetes/kubernetes#123905).
 * `selecting` replaces it.
 */
export function withoutFieldSelector(resource: Resource): Resource {
  const { fieldSelector: _, ...selectors } = resource.selectors;
  return { ...resource, selectors };
}

/** Returns a decoder that applies the field selector itself. */
export function selecting({ selects }: Resource, decode: Decoder): Decoder {
  return (kind, raw) => {
    const decoded = decode(kind, raw);
    return selects(raw) ? decoded : { type: "ignored", key: decoded.key };
  };
}

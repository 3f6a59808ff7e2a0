/**
 * Where the API server keeps each kind, and which objects of it are asked for.
 *
 * @module
 */
import type { Decoder } from "../../model/cluster/events.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { fieldAt } from "../../model/values/record.ts";

/** Label of Services that another proxy looks after. */
const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** Label of EndpointSlices of headless Services. */
const HEADLESS = "service.kubernetes.io/headless";

/** Query parameters. */
export interface Selectors {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** A collection of objects and what to take of it. */
export interface Resource {
  readonly path: string;
  readonly selectors: Selectors;
  /** Whether an object is one that the selectors ask for, where the server did not judge. */
  readonly selects: (raw: unknown) => boolean;
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
 * The same collection, asked for without its field selector: Kubernetes before 1.31 has none for
 * cluster IPs (kubernetes/kubernetes#123905). Put what comes through `selecting`.
 */
export function withoutFieldSelector(resource: Resource): Resource {
  const { fieldSelector: _, ...selectors } = resource.selectors;
  return { ...resource, selectors };
}

/** A decoder that ignores what the field selector of a collection would have left out. */
export function selecting({ selects }: Resource, decode: Decoder): Decoder {
  return (kind, raw) => {
    const decoded = decode(kind, raw);
    return selects(raw) ? decoded : { type: "ignored", key: decoded.key };
  };
}

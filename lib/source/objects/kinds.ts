/**
 * The API names of the kinds that signpost reads.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";

/** The API version of each kind. */
export const API_VERSION: { readonly [K in Kind]: string } = {
  Service: "v1",
  EndpointSlice: "discovery.k8s.io/v1",
  Node: "v1",
  ServiceCIDR: "networking.k8s.io/v1",
};

const KIND_OF: ReadonlyMap<unknown, Kind> = new Map([
  ...Object.entries(API_VERSION).map(([kind, version]) =>
    [`${version}/${kind}`, kind as Kind] as const
  ),
  ["networking.k8s.io/v1beta1/ServiceCIDR", "ServiceCIDR"],
]);

/** Returns the kind of an object, or `undefined` if signpost does not read it. */
export function kindOf(
  object: { readonly apiVersion?: unknown; readonly kind?: unknown },
): Kind | undefined {
  return KIND_OF.get(`${object.apiVersion}/${object.kind}`);
}

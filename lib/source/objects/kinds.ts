/**
 * How the API names the kinds that signpost reads.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";

/** The version of the API in which each kind is read and written. */
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

/** The kind of an object by its own words; `undefined` for one that signpost does not read. */
export function kindOf(
  object: { readonly apiVersion?: unknown; readonly kind?: unknown },
): Kind | undefined {
  return KIND_OF.get(`${object.apiVersion}/${object.kind}`);
}

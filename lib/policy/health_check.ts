/**
 * What the health-check node ports tell load balancers.
 *
 * @module
 */
import { type Family, familyOf } from "../model/values/address.ts";
import type { Service } from "../model/cluster/objects.ts";
import { findCandidates, type PortIndex } from "./endpoints.ts";

/** What one Service wants. */
export interface HealthCheck {
  /** `spec.healthCheckNodePort`. */
  readonly port: number;
  /**
   * For each family in which the Service has a cluster IP, the number of distinct addresses of ready
   * endpoints on this node.
   */
  readonly localEndpoints: ReadonlyMap<Family, number>;
  /** Of the Service. */
  readonly loadBalancerIPs: readonly string[];
}

/** What a health check depends on besides its Service. */
export interface HealthCheckInputs {
  /** The Service's slices by their ports. */
  readonly endpoints: PortIndex;
  readonly nodeName: string;
  /** The families that rules are written for. */
  readonly ipFamilies: readonly Family[];
}

/** The health check of a Service; `undefined` where it has none. */
export function healthCheckOf(
  service: Service,
  { ipFamilies, ...inputs }: HealthCheckInputs,
): HealthCheck | undefined {
  const { healthCheckNodePort: port, clusterIPs, loadBalancerIPs } = service;
  if (port === 0) return undefined;
  const families = ipFamilies.filter((each) => clusterIPs.some((ip) => familyOf(ip) === each));
  const localEndpoints = new Map(
    families.map((family) => [family, countReadyLocalEndpoints(service, { ...inputs, family })]),
  );
  return { port, localEndpoints, loadBalancerIPs };
}

/** Of the same entries that the rules go by: a terminating one does not count beside a ready one. */
function countReadyLocalEndpoints(
  service: Service,
  { endpoints, nodeName, family }: Omit<HealthCheckInputs, "ipFamilies"> & {
    readonly family: Family;
  },
): number {
  const addresses = new Set<string>();
  for (const port of service.ports) {
    for (const { endpoint } of findCandidates(endpoints, { port, family, nodeName })) {
      if (endpoint.ready && endpoint.nodeName === nodeName) addresses.add(endpoint.address);
    }
  }
  return addresses.size;
}

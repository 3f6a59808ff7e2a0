/**
 * The data of health-check node ports, for load balancers.
 *
 * @module
 */
import { type Family, familyOf } from "../model/values/address.ts";
import type { Service } from "../model/cluster/objects.ts";
import { findCandidates, type PortIndex } from "./endpoints.ts";

/** The health check of one Service. */
export interface HealthCheck {
  /** `spec.healthCheckNodePort`. */
  readonly port: number;
  /** The number of distinct addresses of ready endpoints on this node, for each family with a cluster IP. */
  readonly localEndpoints: ReadonlyMap<Family, number>;
  /** The load-balancer IPs of the Service. */
  readonly loadBalancerIPs: readonly string[];
}

/** The inputs of a health check besides its Service. */
export interface HealthCheckInputs {
  /** The Service's slices by their ports. */
  readonly endpoints: PortIndex;
  readonly nodeName: string;
  /** The families that rules are written for. */
  readonly ipFamilies: readonly Family[];
}

/** Returns the health check of a Service, or `undefined` if it has none. */
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

/** Counts from the same entries as the rules: a ready entry hides a terminating one. */
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

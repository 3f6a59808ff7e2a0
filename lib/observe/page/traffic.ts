/**
 * Where a service port's traffic goes, before it is drawn.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "../../model/kernel/desired.ts";
import { hostPort } from "../../model/cluster/names.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import { endpointsFor } from "../../model/kernel/port_endpoints.ts";

/** A way in: an address and port, or a node port. */
export interface Entrance {
  readonly text: string;
  readonly kind: "cluster IP" | "external IP" | "load balancer" | "node port";
  readonly policy: TrafficPolicy;
}

/** What becomes of the traffic of some entrances. */
export interface Route {
  readonly policy: TrafficPolicy;
  readonly entrances: readonly Entrance[];
  readonly endpoints: readonly Destination[];
  /** `""`: it is sent to one of the endpoints. */
  readonly refusal: "" | "rejected" | "dropped";
}

/** All ways in and where they lead, by traffic policy; nothing where the service port has no address. */
export function routesOf(port: DesiredServicePort): Route[] {
  const entrances = entrancesOf(port);
  return (["Cluster", "Local"] as const).flatMap((policy) => {
    const own = entrances.filter((each) => each.policy === policy);
    if (own.length === 0) return [];
    const endpoints = endpointsFor(port, policy);
    const isDropped = policy === "Local" && port.hasEndpoints;
    const refusal = endpoints.length > 0 ? "" : isDropped ? "dropped" : "rejected";
    return [{ policy, entrances: own, endpoints, refusal }];
  });
}

function entrancesOf(port: DesiredServicePort): Entrance[] {
  const { protocol, nodePort, internalTrafficPolicy, externalTrafficPolicy } = port;
  const at = (kind: Entrance["kind"], policy: TrafficPolicy) => (address: string): Entrance => ({
    text: `${hostPort(address, port.port)}/${protocol}`,
    kind,
    policy,
  });
  return [
    ...port.clusterIPs.map(at("cluster IP", internalTrafficPolicy)),
    ...port.externalIPs.map(at("external IP", externalTrafficPolicy)),
    ...port.loadBalancerIPs.map(at("load balancer", externalTrafficPolicy)),
    ...nodePort === 0 ? [] : [{
      text: `node:${nodePort}/${protocol}`,
      kind: "node port" as const,
      policy: externalTrafficPolicy,
    }],
  ];
}

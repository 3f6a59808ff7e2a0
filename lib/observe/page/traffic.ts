/**
 * Where a service port's traffic goes, before it is drawn.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "../../model/kernel/desired.ts";
import { hostPort } from "../../model/cluster/names.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import { endpointsFor } from "../../model/kernel/port_endpoints.ts";
import { type Frontend, frontendsOf, policyOf } from "../../policy/frontend.ts";

/** What becomes of the traffic to some frontends. */
export interface Route {
  readonly policy: TrafficPolicy;
  readonly frontends: readonly NamedFrontend[];
  readonly endpoints: readonly Destination[];
  /** `""`: it is sent to one of the endpoints. */
  readonly refusal: "" | "rejected" | "dropped";
}

/** A frontend in words. */
export interface NamedFrontend {
  readonly text: string;
  readonly kind: string;
}

/** All frontends and where they lead, by traffic policy; nothing where the service port has none. */
export function routesOf(port: DesiredServicePort): Route[] {
  const frontends = frontendsOf(port);
  return (["Cluster", "Local"] as const).flatMap((policy) => {
    const own = frontends.filter((each) => policyOf(port, each) === policy);
    if (own.length === 0) return [];
    const endpoints = endpointsFor(port, policy);
    const isDropped = policy === "Local" && port.hasEndpoints;
    const refusal = endpoints.length > 0 ? "" : isDropped ? "dropped" : "rejected";
    return [{ policy, frontends: own.map((each) => inWords(port, each)), endpoints, refusal }];
  });
}

const KINDS: Readonly<Record<Frontend["type"], string>> = {
  clusterIP: "cluster IP",
  externalIP: "external IP",
  loadBalancerIP: "load balancer",
  nodePort: "node port",
};

function inWords(
  { protocol }: DesiredServicePort,
  { type, address, port }: Frontend,
): NamedFrontend {
  return { text: `${hostPort(address ?? "node", port)}/${protocol}`, kind: KINDS[type] };
}

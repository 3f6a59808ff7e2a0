/**
 * Checks settings of connection tracking against the Services.
 *
 * @module
 */
import { serviceOf } from "../model/cluster/names.ts";
import { needsOf } from "../model/cluster/scheduler.ts";
import { eachPort, type NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** A hash is for routers that move flows; conntrack refuses what comes back after others have gone on. */
export function* checkMovedConnections(
  { objects, configuration }: NodeFacts,
): Generator<undefined, Finding[]> {
  if (!objects || configuration.conntrack.tcpBeLiberal) return [];
  const services = new Set<string>();
  yield* eachPort(objects.desired, (port) => {
    const isMoving = needsOf(port.scheduler).hash && port.protocol === "tcp" &&
      port.loadBalancerIPs.length + port.externalIPs.length > 0;
    if (isMoving) services.add(serviceOf(port.name));
    return services.size >= MOST_SERVICES;
  });
  const [first] = services;
  if (first === undefined) return [];
  return [finding("hash-without-liberal-conntrack", {
    what: `${[...services].join(", ")} has external addresses and is spread by a hash: ` +
      "TCP connections that routers move between nodes become invalid when they come back",
    where: "conntrack.tcpBeLiberal",
    services: [...services],
  })];
}

/** Services that one finding names. */
const MOST_SERVICES = 20;

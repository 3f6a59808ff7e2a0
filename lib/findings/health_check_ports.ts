/**
 * Checks that load balancers get this node's answer on health-check node ports.
 *
 * @module
 */
import { serviceOf } from "../model/cluster/names.ts";
import { eachPort, type NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Finds health-check node ports that cannot be opened, or that lead to another Service's endpoints. */
export function* checkHealthCheckPorts(
  { objects, healthCheckFailures = [] }: NodeFacts,
): Generator<undefined, Finding[]> {
  const taken = healthCheckFailures.map(({ service, port, reason }) =>
    finding("health-check-port-taken", {
      what: `this node cannot listen on health-check node port ${port} of ${service}: ${reason}`,
      where: `${service} port ${port}`,
      services: [service],
    })
  );
  if (!objects) return taken;
  const services = Map.groupBy(objects.healthChecks, ([, { port }]) => port);
  const shared = new Map<string, Finding>();
  yield* eachPort(objects.desired, ({ name, protocol, nodePort }) => {
    const checked = protocol === "tcp" ? services.get(nodePort) : undefined;
    for (const [service] of checked ?? []) {
      const what = `health-check node port ${nodePort} of ${service} is the node port of ${name}`;
      shared.set(
        `${service} ${name}`,
        finding("health-check-port-is-node-port", {
          what,
          where: `${service} port ${nodePort}`,
          services: [...new Set([service, serviceOf(name)])],
        }),
      );
    }
    return false;
  });
  return [...taken, ...shared.values()];
}

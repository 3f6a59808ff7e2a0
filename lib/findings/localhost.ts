/**
 * Checks that node ports on loopback are open.
 *
 * @module
 */
import { hostPort, serviceOf } from "../model/cluster/names.ts";
import type { NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Names each node port that no listener could open. */
export function checkLocalhost({ localhostFailures = [] }: NodeFacts): Finding[] {
  return localhostFailures.map(({ servicePort, address, port, error }) => {
    const where = hostPort(address, port);
    return finding("localhost-node-port-taken", {
      what: `cannot listen on ${where} for ${servicePort}: ${error}`,
      where,
      services: [serviceOf(servicePort)],
    });
  });
}

/** A desired service port with every kind of frontend. */
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { servicePort } from "../support/cluster.ts";

/** @param changes what is other than usual */
export function desiredPort(changes: Partial<DesiredServicePort> = {}): DesiredServicePort {
  return servicePort({
    externalIPs: ["198.51.100.7"],
    loadBalancerIPs: ["192.0.2.10"],
    nodePort: 30080,
    ...changes,
  });
}

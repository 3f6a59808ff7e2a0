/**
 * Collects the facts that several rules of a service port share.
 *
 * @module
 */
import { isExternal } from "../../../policy/frontend.ts";
import {
  type DesiredNode,
  type DesiredServicePort,
  endpointsFor,
} from "../../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../../model/cluster/objects.ts";
import { type ServiceChainNames, serviceChainNames } from "./names.ts";

/** A service port with the facts that several of its rules share. */
export interface ServiceContext {
  readonly servicePort: DesiredServicePort;
  readonly node: DesiredNode;
  readonly names: ServiceChainNames;
  readonly usesExternalChain: boolean;
  readonly usesFirewall: boolean;
}

/** Computes the shared facts of a service port's rules. */
export function contextOf(servicePort: DesiredServicePort, node: DesiredNode): ServiceContext {
  const { loadBalancerIPs, sourceRanges, hasEndpoints } = servicePort;
  return {
    servicePort,
    node,
    names: serviceChainNames(servicePort.name, servicePort.protocol),
    usesExternalChain: isExternal(servicePort) && hasEndpoints,
    usesFirewall: hasEndpoints && loadBalancerIPs.length > 0 && sourceRanges.length > 0,
  };
}

/** Returns the chain of one policy's endpoints. */
export function policyChain({ names }: ServiceContext, policy: TrafficPolicy): string {
  return policy === "Cluster" ? names.cluster : names.local;
}

/**
 * Returns true if a policy's chain exists: it has endpoints, and a rule leads to it. Pods and the
 * node itself reach external addresses under the Cluster policy in any case.
 */
export function isUsed(context: ServiceContext, policy: TrafficPolicy): boolean {
  const { servicePort, usesExternalChain } = context;
  if (endpointsFor(servicePort, policy).length === 0) return false;
  const internal = servicePort.clusterIPs.length > 0 &&
    servicePort.internalTrafficPolicy === policy;
  const external = usesExternalChain &&
    (policy === "Cluster" || servicePort.externalTrafficPolicy === policy);
  return internal || external;
}

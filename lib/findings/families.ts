/**
 * Checks settings for the wrong IP family, and for node ports that are open wider than they may be meant to
 * be, as kube-proxy checks them at its start (`checkBadConfig` and `checkBadIPConfig` of cmd/kube-proxy/app/server.go).
 *
 * @module
 */
import { type Family, familyOf, isSpecialAddress, parseAddress } from "../model/values/address.ts";
import { inEffect } from "../config/configz.ts";
import { splitHostPort } from "../model/cluster/names.ts";
import type { Configuration } from "../config/configuration.ts";
import { NODE_PORT_WORDS } from "../model/configuration.ts";
import type { NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Finds settings of the wrong IP family, and node ports that are open wider than they may be meant to be. */
export function checkFamilies({ objects, configuration, traits }: NodeFacts): Finding[] {
  if (!objects) return [];
  const { node, desired } = objects;
  const { bindAddress } = configuration;
  const own = isSpecialAddress(bindAddress) ? node?.addresses[0] : bindAddress;
  const inputs = {
    configuration: inEffect(configuration, traits),
    primary: familyOf(own ?? bindAddress),
    podCIDRs: node?.podCIDRs ?? [],
    dualStack: desired.node.ipFamilies.length > 1,
  };
  return [...nodePortProblems(inputs), ...familyProblems(inputs)];
}

/** What the checks look at. */
export interface FamilyInputs {
  /** As it is in effect: with the mode that was chosen and its default node port addresses. */
  readonly configuration: Pick<
    Configuration,
    | "clusterCIDRs"
    | "detectLocalMode"
    | "healthzBindAddress"
    | "ipvs"
    | "metricsBindAddress"
    | "nodePortAddresses"
    | "winkernel"
  >;
  /** The family of the node's first address. */
  readonly primary: Family;
  readonly podCIDRs: readonly string[];
  /** True if this node has rules of both families. */
  readonly dualStack: boolean;
}

/** Node ports that are open on more addresses than the setting names. */
export function nodePortProblems(
  { configuration, primary, podCIDRs }: FamilyInputs,
): Finding[] {
  const { nodePortAddresses, clusterCIDRs, ipvs } = configuration;
  const other = otherFamily(primary);
  if (nodePortAddresses.length === 0) {
    return [finding("node-ports-on-all-addresses", {
      what: "nodePortAddresses is not set: node ports answer on all addresses of this node",
      where: "nodePortAddresses",
    })];
  }
  if (nodePortAddresses.some((entry) => NODE_PORT_WORDS.includes(entry))) return [];
  const lists = [clusterCIDRs, nodePortAddresses, ipvs.excludeCIDRs, podCIDRs];
  const isDual = lists.some((cidrs) => has(cidrs, 4) && has(cidrs, 6));
  const open = !has(nodePortAddresses, primary)
    ? primary
    : isDual && !has(nodePortAddresses, other)
    ? other
    : undefined;
  return open === undefined ? [] : [finding("node-ports-of-one-family", {
    what: `nodePortAddresses has only IPv${otherFamily(open)} ranges: node ports answer on all ` +
      `IPv${open} addresses of this node`,
    where: "nodePortAddresses",
    remedy: `Add IPv${open} ranges to nodePortAddresses (--nodeport-addresses).`,
  })];
}

/** Settings that name only addresses of the family that is not the primary one. */
export function familyProblems(inputs: FamilyInputs): Finding[] {
  const { configuration, primary, podCIDRs, dualStack } = inputs;
  const { clusterCIDRs, detectLocalMode, ipvs, winkernel } = configuration;
  const wrong = otherFamily(primary);
  const cluster = dualStack ? `IPv${primary}-first` : `IPv${primary}-only`;
  const only = (cidrs: readonly string[]) => has(cidrs, wrong) && !has(cidrs, primary);
  const problem = (
    setting: string,
    { fatal, effect }: { readonly fatal: boolean; readonly effect?: string },
  ) =>
    finding(fatal ? "pod-detection-of-other-family" : "setting-of-other-family", {
      what: `this node is ${cluster}, and ${setting} has only IPv${wrong} addresses` +
        (effect === undefined ? "" : `: ${effect}`),
      where: setting,
    });
  const effect = `pods of this node are not detected by their IPv${primary} addresses, and their ` +
    "traffic to cluster IPs is not told apart";
  const problems: Finding[] = [];
  if (only(clusterCIDRs)) {
    const used = detectLocalMode === "ClusterCIDR";
    problems.push(problem("clusterCIDR", { fatal: used && !dualStack, ...used && { effect } }));
  }
  if (only(podCIDRs)) {
    const used = detectLocalMode === "NodeCIDR";
    problems.push(problem("the Node's spec.podCIDRs", { fatal: used, ...used && { effect } }));
  }
  const sourceVip = parseAddress(winkernel.sourceVip);
  if (sourceVip !== undefined && familyOf(sourceVip) === wrong) {
    problems.push(problem("winkernel.sourceVip", { fatal: false }));
  }
  if (dualStack) return problems;
  if (only(ipvs.excludeCIDRs)) problems.push(problem("ipvs.excludeCIDRs", { fatal: false }));
  for (const setting of ["healthzBindAddress", "metricsBindAddress"] as const) {
    const host = parseAddress(splitHostPort(configuration[setting]).hostname);
    if (host === undefined || isSpecialAddress(host) || familyOf(host) !== wrong) continue;
    problems.push(problem(setting, { fatal: false }));
  }
  return problems;
}

function has(cidrs: readonly string[], family: Family): boolean {
  return cidrs.some((cidr) => familyOf(cidr) === family);
}

function otherFamily(family: Family): Family {
  return family === 4 ? 6 : 4;
}

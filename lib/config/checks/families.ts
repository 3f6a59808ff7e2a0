/**
 * Settings of the wrong IP family, and node ports that are open wider than they may be meant to be: what
 * kube-proxy checks at its start (`checkBadConfig` and `checkBadIPConfig` of cmd/kube-proxy/app/server.go).
 *
 * @module
 */
import {
  type Family,
  familyOf,
  isSpecialAddress,
  parseAddress,
} from "../../model/values/address.ts";
import { splitHostPort } from "../../model/cluster/names.ts";
import type { Configuration } from "../../model/configuration.ts";
import { NODE_PORT_WORDS } from "../../model/node_port_addresses.ts";

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
  /** Whether this node has rules of both families. */
  readonly dualStack: boolean;
}

/** One thing that is wrong. */
export interface FamilyProblem {
  readonly message: string;
  /** Whether kube-proxy would not run. */
  readonly fatal: boolean;
}

/** Node ports that are open on more addresses than the setting names. */
export function nodePortProblems(
  { configuration, primary, podCIDRs }: FamilyInputs,
): FamilyProblem[] {
  const { nodePortAddresses, clusterCIDRs, ipvs } = configuration;
  const other = otherFamily(primary);
  if (nodePortAddresses.length === 0) {
    return [warning(
      "nodePortAddresses is not set: node ports answer on all addresses of this node; " +
        "nodePortAddresses: [primary] (--nodeport-addresses=primary) opens the Node's own alone",
    )];
  }
  if (nodePortAddresses.some((entry) => NODE_PORT_WORDS.includes(entry))) return [];
  const lists = [clusterCIDRs, nodePortAddresses, ipvs.excludeCIDRs, podCIDRs];
  const isDual = lists.some((cidrs) => has(cidrs, 4) && has(cidrs, 6));
  const open = !has(nodePortAddresses, primary)
    ? primary
    : isDual && !has(nodePortAddresses, other)
    ? other
    : undefined;
  return open === undefined ? [] : [warning(
    `nodePortAddresses has only IPv${otherFamily(open)} ranges: node ports answer on all ` +
      `IPv${open} addresses of this node; add IPv${open} ranges`,
  )];
}

/** Settings that name only addresses of the family that is not the primary one. */
export function familyProblems(inputs: FamilyInputs): FamilyProblem[] {
  const { configuration, primary, podCIDRs, dualStack } = inputs;
  const { clusterCIDRs, detectLocalMode, ipvs, winkernel } = configuration;
  const wrong = otherFamily(primary);
  const cluster = dualStack ? `IPv${primary}-first` : `IPv${primary}-only`;
  const only = (cidrs: readonly string[]) => has(cidrs, wrong) && !has(cidrs, primary);
  const problem = (setting: string, { fatal, effect }: { fatal: boolean; effect?: string }) => ({
    message: `this node is ${cluster}, and ${setting} has only IPv${wrong} addresses` +
      (effect === undefined ? "" : `: ${effect}`),
    fatal,
  });
  const effect = `pods of this node are not detected by their IPv${primary} addresses, and their ` +
    "traffic to cluster IPs is not told apart";
  const problems: FamilyProblem[] = [];
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

function warning(message: string): FamilyProblem {
  return { message, fatal: false };
}

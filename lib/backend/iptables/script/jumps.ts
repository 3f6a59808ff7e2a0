/**
 * Defines the rules in built-in chains that lead to signpost's chains.
 *
 * @module
 */
import type { Table } from "./names.ts";
import { comment, rule } from "./rule.ts";

/** A rule in a built-in chain that leads to one of signpost's chains. */
export interface Jump {
  readonly table: Table;
  /** The built-in chain, for example `PREROUTING`. */
  readonly from: string;
  readonly rule: string;
}

const NEW = "-m conntrack --ctstate NEW";

const EXTERNAL = leadTo("KUBE-EXTERNAL-SERVICES", "externally-visible service portals", NEW);
const HEALTH_CHECKS = leadTo("KUBE-NODEPORTS", "health check service ports");
const REFUSED_SERVICES = leadTo("KUBE-SERVICES", "service portals", NEW);
const FORWARDING = leadTo("KUBE-FORWARD", "forwarding rules");
const FIREWALL = leadTo("KUBE-PROXY-FIREWALL", "load balancer firewall", NEW);
const SERVICES = leadTo("KUBE-SERVICES", "service portals");
const POSTROUTING = leadTo("KUBE-POSTROUTING", "postrouting rules");

/**
 * The jumps, equal to kube-proxy's, so that a hand-over finds them in place. Each is inserted at
 * the head of its chain, so the last one comes first.
 *
 * Refusals see only new connections, to spare established ones the lookup.
 */
export const JUMPS: readonly Jump[] = [
  { table: "filter", from: "INPUT", rule: EXTERNAL },
  { table: "filter", from: "FORWARD", rule: EXTERNAL },
  { table: "filter", from: "INPUT", rule: HEALTH_CHECKS },
  { table: "filter", from: "FORWARD", rule: REFUSED_SERVICES },
  { table: "filter", from: "OUTPUT", rule: REFUSED_SERVICES },
  { table: "filter", from: "FORWARD", rule: FORWARDING },
  { table: "filter", from: "INPUT", rule: FIREWALL },
  { table: "filter", from: "OUTPUT", rule: FIREWALL },
  { table: "filter", from: "FORWARD", rule: FIREWALL },
  { table: "nat", from: "OUTPUT", rule: SERVICES },
  { table: "nat", from: "PREROUTING", rule: SERVICES },
  { table: "nat", from: "POSTROUTING", rule: POSTROUTING },
];

function leadTo(chain: string, note: string, match = ""): string {
  return rule(match, comment(`kubernetes ${note}`), `-j ${chain}`);
}

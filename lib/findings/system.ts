/**
 * Checks what runs beside signpost, and the limits of the kernel.
 *
 * @module
 */
import { answersOnLoopback } from "../policy/node.ts";
import type { NodeFacts, Rival } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Share of the table of connection tracking from which on it is almost full. */
const ALMOST = 0.9;

/** Finds another proxy, refused kernel settings, and a table of connection tracking that is almost full. */
export function checkSystem({ rival, system, settingFailures = [] }: NodeFacts): Finding[] {
  const conntrack = system?.conntrack;
  return [
    ...rival ? [foreignProxy(rival)] : [],
    ...settingFailures.map(({ name, value, reason }) =>
      finding("kernel-setting-refused", {
        what: `${name} could not be set to ${value} and stays as it is: ${reason}`,
        where: name,
        remedy: `Run sysctl -w ${name}=${value} on the node, or set the setting's value to 0.`,
      })
    ),
    ...conntrack === undefined || conntrack.entries < ALMOST * conntrack.max ? [] : [
      finding("conntrack-table-almost-full", {
        what: `connection tracking has ${conntrack.entries} of ${conntrack.max} entries`,
        where: "net.netfilter.nf_conntrack_max",
      }),
    ],
  ];
}

/** Compares `route_localnet` with the need for it: node ports on 127.0.0.1 in iptables mode. */
export function checkRouteLocalnet({ objects, traits, system }: NodeFacts): Finding[] {
  const value = system?.routeLocalnet;
  if (!objects || value === undefined) return [];
  const where = "net.ipv4.conf.all.route_localnet";
  if (answersOnLoopback(objects.desired.node, 4)) {
    const what = `node ports do not answer on loopback: ${where} is 0`;
    return value === "0" ? [finding("route-localnet-off", { what, where })] : [];
  }
  // Other proxies and iptables mode set it; nftables mode never needs it.
  if (traits.localhostNodePorts === "rules" || value === "0") return [];
  const what = `${where} is ${value} and no node port needs it: only signpost's rules keep ` +
    "neighbours from what listens on 127.0.0.1";
  return [finding("route-localnet-on", { what, where })];
}

function foreignProxy({ rules, processes }: Rival): Finding {
  const who = processes.length === 0 ? "no process of it is seen from here" : processes.join(", ");
  return finding("another-proxy", {
    what: `another proxy keeps writing its rules on this node: ${rules.join(", ")} (${who})`,
    where: "kube-proxy",
  });
}

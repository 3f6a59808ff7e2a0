/**
 * Checks what runs beside signpost, and the limits of the kernel.
 *
 * @module
 */
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

function foreignProxy({ rules, processes }: Rival): Finding {
  const who = processes.length === 0 ? "no process of it is seen from here" : processes.join(", ");
  return finding("another-proxy", {
    what: `another proxy keeps writing its rules on this node: ${rules.join(", ")} (${who})`,
    where: "kube-proxy",
  });
}

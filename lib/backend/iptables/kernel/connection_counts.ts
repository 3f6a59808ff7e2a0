/**
 * What the rules of frontends have counted: nat chains see the first packet of each connection, and a packet
 * that meets the rule of its frontend goes to no other one.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import { frontendKey, keyInFamily } from "../../../model/cluster/names.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { FrontendCount } from "../../../model/kernel/connections.ts";

/** The chains of the table `nat` that have a rule for each frontend. */
export const FRONTEND_CHAINS: readonly string[] = ["KUBE-SERVICES", "KUBE-NODEPORTS"];

/** A rule of a frontend, as `iptables -v -S` prints it. The comment begins with the Service's name. */
const COUNTED = new RegExp(
  "^-A KUBE-(?:SERVICES|NODEPORTS) (?:-d ([0-9a-f.:]+)/\\d+ )?-p (tcp|udp|sctp) " +
    '-m comment --comment "?([^ ":]+)[^"]*?"? -m \\w+ --dport (\\d+) ' +
    "-c (\\d+) \\d+ -j KUBE-(?:SVC|SVL|EXT|FW)-",
  "gm",
);

/**
 * The counts in a listing, worked out one by one.
 *
 * @param listing what `iptables -v -S` prints
 */
export function* countsIn(family: Family, listing: string): Iterable<FrontendCount> {
  for (const [, address, name, service = "", port, packets] of listing.matchAll(COUNTED)) {
    const protocol = name as Protocol;
    const key = frontendKey({ address, protocol, port: Number(port) });
    yield { frontend: keyInFamily(family, key), service, connections: Number(packets) };
  }
}

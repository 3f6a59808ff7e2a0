/**
 * Reads the counts of frontend rules. The first packet of each connection meets exactly one of them
 * in the `nat` chains.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import { frontendKey, keyInFamily } from "../../../model/cluster/names.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { FrontendCount } from "../../../model/connections.ts";

/** The chains of the table `nat` with frontend rules. */
export const FRONTEND_CHAINS: readonly string[] = ["KUBE-SERVICES", "KUBE-NODEPORTS"];

/** A frontend rule in the output of `iptables -v -S`. Its comment begins with the Service's name. */
const COUNTED = new RegExp(
  "^-A KUBE-(?:SERVICES|NODEPORTS) (?:-d ([0-9a-f.:]+)/\\d+ )?-p (tcp|udp|sctp) " +
    '-m comment --comment "?([^ ":]+)[^"]*?"? -m \\w+ --dport (\\d+) ' +
    "-c (\\d+) \\d+ -j KUBE-(?:SVC|SVL|EXT|FW)-",
  "gm",
);

/**
 * Yields the counts in a listing one by one.
 *
 * @param listing the output of `iptables -v -S`
 */
export function* countsIn(family: Family, listing: string): Iterable<FrontendCount> {
  for (const [, address, name, service = "", port, packets] of listing.matchAll(COUNTED)) {
    const protocol = name as Protocol;
    const key = frontendKey({ address, protocol, port: Number(port) });
    yield { frontend: keyInFamily(family, key), service, connections: Number(packets) };
  }
}

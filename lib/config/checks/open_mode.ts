/**
 * What is other than with kube-proxy where no mode is set: its default is iptables.
 *
 * @module
 */
import { cidrContains } from "../../model/values/address.ts";
import type { Configuration } from "../../model/configuration.ts";
import { nodePortRanges } from "../../model/node_port_addresses.ts";

const LOCALHOST = "127.0.0.1";

/**
 * How node ports differ because nftables was chosen where no mode is set.
 *
 * @returns one line with the settings that restore kube-proxy's behaviour; `undefined` where a mode is
 *   set, or nothing differs
 */
export function openModeWarning(
  { mode, nodePortAddresses, iptables }: Pick<
    Configuration,
    "mode" | "nodePortAddresses" | "iptables"
  >,
): string | undefined {
  if (mode !== "") return undefined;
  const begin = "no mode is set, and nftables is used where kube-proxy uses iptables: node ports";
  if (nodePortAddresses.length === 0) {
    return `${begin} answer on the Node's primary addresses only, never on ${LOCALHOST}; ` +
      "set nodePortAddresses to all for all addresses but loopback, mode to iptables for " +
      "kube-proxy's default, or mode to nftables to end this warning";
  }
  const local = iptables.localhostNodePorts &&
    nodePortRanges(nodePortAddresses).some((cidr) => cidrContains(cidr, LOCALHOST));
  return local
    ? `${begin} never answer on ${LOCALHOST}; set mode to iptables for kube-proxy's default, or ` +
      "to nftables to end this warning"
    : undefined;
}

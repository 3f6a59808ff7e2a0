/**
 * The table that is there while IPVS still carries connections: nothing new comes to a virtual
 * server, or to the node's own ports by an address of `kube-ipvs0`.
 *
 * IPVS looks at packets in the input hook at priority 98, and in the output hook at -98, right after
 * DNAT at -100. What our DNAT has sent elsewhere meets neither; what is left is refused before IPVS
 * sees it. Packets of open connections are not new, and pass.
 *
 * @module
 */
import { FAMILIES, type Family, familyOf } from "../../model/values/address.ts";
import { vipKey } from "../../model/cluster/names.ts";
import { IPVS_TABLE } from "../ipvs_table.ts";
import { NODE_PORTS, type ServerAddress } from "./kernel_text.ts";

/** What the words of nft call an address. */
const IP: Readonly<Record<Family, string>> = { 4: "ip", 6: "ip6" };

/** What is refused. */
export interface Guarded {
  /** The addresses that only `kube-ipvs0` has, canonical. */
  readonly vips: readonly string[];
  readonly servers: readonly ServerAddress[];
  /** False: our rules are not there yet, so that virtual servers are to answer. */
  readonly refusesServers: boolean;
}

/** The commands that put the table there, in the place of one that is there. */
export function guardScript(guarded: Guarded): string {
  return `add table ${IPVS_TABLE}
delete table ${IPVS_TABLE}
table ${IPVS_TABLE} {
${FAMILIES.map((family) => sets(family, guarded)).join("")}  chain guard {
${FAMILIES.map((family) => rules(family, guarded)).join("")}  }
  chain input {
    type filter hook input priority -1
    ct state new jump guard
  }
  chain output {
    type filter hook output priority -99
    ct state new jump guard
${FAMILIES.map((family) => reset(family, 'oifname != "lo" ')).join("")}  }
  chain forward {
    type filter hook forward priority -1
${FAMILIES.map((family) => reset(family)).join("")}  }
  chain postrouting {
    type nat hook postrouting priority 99
${FAMILIES.map(masquerade).join("")}  }
}
`;
}

/** The commands that remove the table. */
export const GUARD_REMOVAL = `add table ${IPVS_TABLE}\ndelete table ${IPVS_TABLE}\n`;

function sets(family: Family, { vips, servers }: Guarded): string {
  const ip = IP[family];
  const own = vips.filter((address) => familyOf(address) === family);
  const keys = servers.filter(({ address }) => familyOf(address) === family)
    .map(({ address, protocol, port }) => vipKey(address, protocol, port));
  return set(`vips${family}`, `typeof ${ip} daddr`, own) +
    set(`servers${family}`, `typeof ${ip} daddr . meta l4proto . tcp dport`, keys);
}

function set(name: string, type: string, elements: readonly string[]): string {
  const unique = [...new Set(elements)].sort();
  const list = unique.length === 0 ? "" : `    elements = { ${unique.join(", ")} }\n`;
  return `  set ${name} {\n    ${type}\n${list}  }\n`;
}

/** A load balancer may ask a health-check node port by the virtual IP; our table knows which those are. */
function rules(family: Family, { refusesServers }: Guarded): string {
  const daddr = `${IP[family]} daddr`;
  const server = `${daddr} . meta l4proto . th dport @servers${family}`;
  return `    ${server} ${refusesServers ? "reject" : "return"}
    ${daddr} @vips${family} tcp dport ${NODE_PORTS.first}-${NODE_PORTS.last} return
    ${daddr} @vips${family} reject
`;
}

/**
 * As long as a virtual IP is an address of the node, nothing to it is forwarded, and what the node sends
 * itself stays on `lo`. When `kube-ipvs0` has
 * gone, what our DNAT did not send elsewhere is of a connection that IPVS carried, and has no way to go.
 */
function reset(family: Family, way = ""): string {
  return `    ${way}${
    IP[family]
  } daddr @vips${family} meta l4proto tcp ct state established reject with tcp reset\n`;
}

/**
 * The kernel gives the node's own connections to a local address that address as their source, and an
 * endpoint elsewhere would answer to its own node.
 */
function masquerade(family: Family): string {
  return `    ${IP[family]} saddr @vips${family} masquerade fully-random\n`;
}

/**
 * Writes the guard's table while IPVS still has connections. It keeps new connections from virtual
 * servers, and from the node's own ports at an address of `kube-ipvs0`.
 *
 * IPVS sees packets in the input hook at priority 98, and in the output hook at -98, after DNAT at
 * -100. Packets that our DNAT redirected meet neither. The guard refuses the others before IPVS
 * sees them, but not packets of open connections.
 *
 * @module
 */
import { FAMILIES, type Family, familyOf } from "../../model/values/address.ts";
import { vipKey } from "../../model/cluster/names.ts";
import { IPVS_TABLE } from "../ipvs_table.ts";
import { NODE_PORTS, type ServerAddress } from "./kernel_text.ts";

/** The name of an address in nft. */
const IP: Readonly<Record<Family, string>> = { 4: "ip", 6: "ip6" };

/** The traffic to refuse. */
export interface Guarded {
  /** The addresses that only `kube-ipvs0` has, canonical. */
  readonly vips: readonly string[];
  readonly servers: readonly ServerAddress[];
  /** False while virtual servers should answer, because signpost's rules are not written yet. */
  readonly refusesServers: boolean;
}

/** Returns the commands that create or replace the table. */
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

/**
 * Returns the rules of a family. They skip node ports: a load balancer may use a health-check port
 * at a virtual IP, and signpost's own table knows these.
 */
function rules(family: Family, { refusesServers }: Guarded): string {
  const daddr = `${IP[family]} daddr`;
  const server = `${daddr} . meta l4proto . th dport @servers${family}`;
  return `    ${server} ${refusesServers ? "reject" : "return"}
    ${daddr} @vips${family} tcp dport ${NODE_PORTS.first}-${NODE_PORTS.last} return
    ${daddr} @vips${family} reject
`;
}

/**
 * Resets connections of IPVS that have no route left. While `kube-ipvs0` exists, packets to virtual
 * IPs are not forwarded, and the node's own stay on `lo`.
 */
function reset(family: Family, way = ""): string {
  return `    ${way}${
    IP[family]
  } daddr @vips${family} meta l4proto tcp ct state established reject with tcp reset\n`;
}

/**
 * Masquerades the node's own connections: a local virtual IP as the source would make the endpoint
 * answer itself.
 */
function masquerade(family: Family): string {
  return `    ${IP[family]} saddr @vips${family} masquerade fully-random\n`;
}

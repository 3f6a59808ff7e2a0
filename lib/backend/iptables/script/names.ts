/** Names the chains as kube-proxy does, for runbooks and other programs. */
import { shortHash } from "../../../model/values/hash.ts";
import { hostPort } from "../../../model/cluster/names.ts";
import type { Destination } from "../../../model/kernel/desired.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { Family } from "../../../model/values/address.ts";

export type Table = "filter" | "nat";

/** Both tables in the order of restoring, each in one transaction. */
export const TABLES: readonly Table[] = ["nat", "filter"];

/** An empty chain in each table. Without it, another program has flushed the table. */
export const CANARY_CHAIN = "KUBE-PROXY-CANARY";

const HASH_LENGTH = 16;

/** The comment on the rule in KUBE-MARK-MASQ. A kube-proxy that takes over rewrites that chain. */
export const OWNER = "signpost";

/** The chain that masquerades hairpin connections. A kube-proxy that takes over removes it by its prefix. */
export const HAIRPIN_CHAIN = "KUBE-SEP-HAIRPIN";

/** Matches the chains of a service port and of its endpoints, all in the table `nat`. */
const SERVICE_CHAIN = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/;

const ENDPOINT_PREFIX = "KUBE-SEP-";

export interface ServiceChainNames {
  readonly Cluster: string;
  readonly Local: string;
  /** Connections to an external IP, a load-balancer IP or a node port. */
  readonly external: string;
  /** Sources that may reach the load-balancer IPs. */
  readonly firewall: string;
}

/** Returns true for a service port's chain, of signpost or kube-proxy. */
export function isServiceChain(name: string): boolean {
  return name !== HAIRPIN_CHAIN && SERVICE_CHAIN.test(name);
}

/** Returns true if a rule with this target sends a connection to an endpoint. */
export function leadsToEndpoint(target: string): boolean {
  return target === "DNAT" || target !== HAIRPIN_CHAIN && target.startsWith(ENDPOINT_PREFIX);
}

/** Returns chains as in kube-proxy: a prefix and base32(sha256(name + protocol)). @param name `namespace/name:port` */
export function serviceChainNames(name: string, protocol: Protocol): ServiceChainNames {
  const hash = shortHash(name + protocol, HASH_LENGTH);
  return {
    Cluster: `KUBE-SVC-${hash}`,
    Local: `KUBE-SVL-${hash}`,
    external: `KUBE-EXT-${hash}`,
    firewall: `KUBE-FW-${hash}`,
  };
}

/** Returns the chain and `recent` list of one endpoint with session affinity. */
export function endpointChainName(
  servicePort: { readonly name: string; readonly protocol: Protocol },
  endpoint: Pick<Destination, "address" | "port">,
): string {
  const { name, protocol } = servicePort;
  const text = name + protocol + hostPort(endpoint.address, endpoint.port);
  return ENDPOINT_PREFIX + shortHash(text, HASH_LENGTH);
}

/** Returns the name of a family's iptables program, for example `ip6tables-restore`. */
export function programName(family: Family, tool: "" | "-restore" | "-save", variant = ""): string {
  return `${family === 4 ? "iptables" : "ip6tables"}${variant}${tool}`;
}

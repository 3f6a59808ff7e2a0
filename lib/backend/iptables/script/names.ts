/**
 * Names of chains: kube-proxy's, so that runbooks and other programs find what they look for.
 *
 * @module
 */
import { shortHash } from "../../../model/values/hash.ts";
import { hostPort } from "../../../model/cluster/names.ts";
import type { Destination } from "../../../model/kernel/desired.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";

/** The tables that hold rules of ours. `mangle` only ever holds kube-proxy's canary. */
export type Table = "filter" | "nat";

/**
 * Both tables, in the order in which they are restored, each at one stroke. What has found an endpoint
 * meets no refusal, so that those may come later; what has not must not pass without one. So a refusal
 * that is new comes before both, and one that is no more goes after `nat`.
 */
export const TABLES: readonly Table[] = ["nat", "filter"];

/** An empty chain in each table of ours; where it is gone, another program has flushed the table. */
export const CANARY_CHAIN = "KUBE-PROXY-CANARY";

/** Letters of the hash in the name of a chain. */
const HASH_LENGTH = 16;

/**
 * The comment on our rule in KUBE-MARK-MASQ. Chains have kube-proxy's names; this tells whose they
 * are, for kube-proxy writes that chain again when it takes over.
 */
export const OWNER = "signpost";

/**
 * One rule for each local endpoint: a connection that comes back to its own source is masqueraded.
 *
 * The prefix is that of endpoint chains, so that a kube-proxy that takes over removes it.
 */
export const HAIRPIN_CHAIN = "KUBE-SEP-HAIRPIN";

/**
 * Keeps virtual IPs that are addresses of the node from leading to its own ports. kube-proxy empties the
 * chain that leads to it.
 */
export const VIRTUAL_IP_CHAIN = "KUBE-VIRTUAL-IPS";

/** The chains that are there whatever the services, by table. */
export const FIXED_CHAINS: Readonly<Record<Table, readonly string[]>> = {
  filter: [
    CANARY_CHAIN,
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FORWARD",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
    "KUBE-SERVICES",
    VIRTUAL_IP_CHAIN,
  ],
  nat: [
    CANARY_CHAIN,
    "KUBE-MARK-MASQ",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    HAIRPIN_CHAIN,
    "KUBE-SERVICES",
  ],
};

/** Prefixes of the chains that belong to one service port; all are in the table `nat`. */
const SERVICE_PREFIXES: Readonly<Record<keyof ServiceChainNames | "endpoint", string>> = {
  cluster: "KUBE-SVC-",
  local: "KUBE-SVL-",
  external: "KUBE-EXT-",
  firewall: "KUBE-FW-",
  endpoint: "KUBE-SEP-",
};

/** Whether a chain belongs to a service port, of ours or of kube-proxy's. */
export function isServiceChain(name: string): boolean {
  return name !== HAIRPIN_CHAIN &&
    Object.values(SERVICE_PREFIXES).some((prefix) => name.startsWith(prefix));
}

/** Whether a rule with this target sends a connection to an endpoint. */
export function leadsToEndpoint(target: string): boolean {
  return target === "DNAT" ||
    target !== HAIRPIN_CHAIN && target.startsWith(SERVICE_PREFIXES.endpoint);
}

/** The names of one service port's chains. */
export interface ServiceChainNames {
  /** Endpoints of the Cluster policy. */
  readonly cluster: string;
  /** Endpoints of the Local policy. */
  readonly local: string;
  /** Connections to an external IP, a load-balancer IP or a node port. */
  readonly external: string;
  /** Sources that may reach the load-balancer IPs. */
  readonly firewall: string;
}

/**
 * The chains of a service port.
 *
 * As kube-proxy does it: a prefix and the first 16 letters of
 * base32(sha256(name + protocol)), because a chain's name has 28 letters at most.
 *
 * @param name `namespace/name:port`
 */
export function serviceChainNames(name: string, protocol: Protocol): ServiceChainNames {
  const hash = shortHash(name + protocol, HASH_LENGTH);
  return {
    cluster: SERVICE_PREFIXES.cluster + hash,
    local: SERVICE_PREFIXES.local + hash,
    external: SERVICE_PREFIXES.external + hash,
    firewall: SERVICE_PREFIXES.firewall + hash,
  };
}

/**
 * The chain, and the `recent` list, of one endpoint of a service port with session affinity.
 *
 * @param servicePort its `namespace/name:port` and protocol
 */
export function endpointChainName(
  servicePort: { readonly name: string; readonly protocol: Protocol },
  endpoint: Pick<Destination, "address" | "port">,
): string {
  const { name, protocol } = servicePort;
  const text = name + protocol + hostPort(endpoint.address, endpoint.port);
  return SERVICE_PREFIXES.endpoint + shortHash(text, HASH_LENGTH);
}

/**
 * The rules of kube-proxy's iptables mode for the bench's cluster, after its documented shape: a
 * chain for each service port, and one for each of its endpoints.
 *
 * @module
 */
import {
  clusterIPJump,
  clusterIPRules,
  masqueradeRules,
  natJumps,
} from "../tests/support/kube_proxy_iptables.ts";
import type { ClusterIPPort } from "../tests/support/kube_proxy.ts";
import {
  CLUSTER_CIDR,
  clusterIP,
  initialAddresses,
  SERVICE_PORT,
  serviceName,
  TARGET_PORT,
} from "./cluster.ts";
import type { StageOptions } from "./stage.ts";

/** Input of `iptables-restore --noflush`. */
export interface ChainPerEndpoint {
  /** The whole table. */
  readonly full: string;
  /** One Service's endpoints change: its chains, and `KUBE-SERVICES`, which every sync writes. */
  readonly partial: string;
}

const NETWORK = { family: 4, clusterCIDR: CLUSTER_CIDR } as const;
const FIXED_CHAINS = ["KUBE-MARK-MASQ", "KUBE-POSTROUTING"] as const;

/** Both inputs for such a cluster. */
export function chainPerEndpoint({ services, endpoints }: StageOptions): ChainPerEndpoint {
  const ports = Array.from({ length: services }, (_, i) => servicePort(i, endpoints));
  const jumps = ports.map(clusterIPJump);
  const table = (fixed: readonly string[], changed: readonly ClusterIPPort[]) => {
    const rules = changed.flatMap((port) => clusterIPRules(port, NETWORK));
    const chains = new Set(rules.map((rule) => rule.split(" ")[1]));
    return [
      "*nat",
      ...[...FIXED_CHAINS, "KUBE-SERVICES", ...chains].map((chain) => `:${chain} - [0:0]`),
      ...fixed,
      ...masqueradeRules(),
      ...jumps,
      ...rules,
      "COMMIT",
      "",
    ].join("\n");
  };
  return { full: table(natJumps(), ports), partial: table([], ports.slice(0, 1)) };
}

function servicePort(index: number, endpoints: number): ClusterIPPort {
  return {
    name: `default/${serviceName(index)}:http`,
    protocol: "tcp",
    clusterIP: clusterIP(index),
    port: SERVICE_PORT,
    endpoints: initialAddresses(index, endpoints)
      .map((address) => ({ address, port: TARGET_PORT })),
  };
}

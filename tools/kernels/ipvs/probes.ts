/**
 * Who answers: one connection from each place to each address, as a row of a table.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import { ADDRESSES, type Host, PORT } from "../../../tests/e2e/cluster.ts";
import type { Network } from "../../../tests/support/network.ts";
import type { Outcome } from "../../../tests/support/traffic.ts";
import { ENDPOINTS, NODE_PORTS, vipsOf } from "./objects.ts";

/** The places that connections come from. */
export const PLACES = ["pod", "client", "node"] as const;

/** The address and port to try. */
export interface Target {
  readonly what: string;
  readonly address: string;
  readonly port: number;
  /** True if an endpoint is to answer, once signpost is there. */
  readonly isServed: boolean;
}

/** The port of a program of the node's own, on all its addresses. */
export const OWN_PORT = 22;

/** Everything that is tried in a family. */
export function targetsOf(family: Family): Target[] {
  const v = vipsOf(family);
  const { node } = ADDRESSES[family];
  const served = (what: string, address: string, port = PORT) => ({
    what,
    address,
    port,
    isServed: true,
  });
  const refused = (what: string, address: string, port = PORT) => ({
    what,
    address,
    port,
    isServed: false,
  });
  return [
    served("cluster IP", v.live),
    served("load balancer", v.loadBalancer),
    served("load balancer, policy Local", v.localLoadBalancer),
    served("load balancer, source ranges", v.limitedLoadBalancer),
    served("external IP", v.externalIP),
    served("cluster IP, session affinity", v.sticky),
    served("node port", node, NODE_PORTS.live),
    served("node port, policy Local", node, NODE_PORTS.local),
    refused("cluster IP of a deleted Service", v.deleted),
    refused("load balancer of a deleted Service", v.deletedLoadBalancer),
    refused("node port of a deleted Service", node, NODE_PORTS.deleted),
    refused("cluster IP of a Service that lost its endpoints", v.empty),
    refused(`port ${OWN_PORT} of a cluster IP`, v.live, OWN_PORT),
    refused(`port ${OWN_PORT} of a load balancer`, v.loadBalancer, OWN_PORT),
    refused(`port ${OWN_PORT} of a deleted Service's cluster IP`, v.deleted, OWN_PORT),
  ];
}

/** Milliseconds that an answer may take, in a slow machine. */
const PATIENCE = 8_000;

/** One connection; `"endpoint"`, `"node"`, `"world"`, `"refused"`, `"refused by <errno>"` or `"silence"`. */
export async function probe(network: Network, options: {
  readonly from: Host;
  readonly protocol?: "tcp" | "udp";
  readonly target: Pick<Target, "address" | "port">;
  readonly timeout?: number;
}): Promise<string> {
  const { from, protocol = "tcp", target, timeout = PATIENCE } = options;
  const { address, port } = target;
  const [outcome] = await network.connect({ from, protocol, address, port, times: 1, timeout });
  return outcome ? wordOf(outcome) : "nothing";
}

function wordOf(outcome: Outcome): string {
  // Other errors, such as EHOSTUNREACH, are no rule's.
  if (outcome.type === "reject") {
    return outcome.error === "ECONNREFUSED" ? "refused" : `refused by ${outcome.error}`;
  }
  if (outcome.type === "drop") return "silence";
  const { host } = outcome.answer;
  return ENDPOINTS.some((each) => each === host) ? "endpoint" : host;
}

/** Returns the answers by target: one word if all places get the same, else one for each place. */
export async function census(
  network: Network,
  families: readonly Family[],
): Promise<ReadonlyMap<string, string>> {
  const rows = new Map<string, string>();
  for (const family of families) {
    const targets = targetsOf(family);
    const tcp = await answersTo(network, targets, "tcp");
    const udp = await answersTo(network, targets, "udp");
    for (const [i, { what, port }] of targets.entries()) {
      const words = PLACES.map((_, at) => {
        const [byTcp = "", byUdp = ""] = [tcp[i]?.[at], udp[i]?.[at]];
        return byTcp === byUdp || port === OWN_PORT ? byTcp : `${byTcp} (UDP ${byUdp})`;
      });
      const isOne = new Set(words).size === 1;
      rows.set(`IPv${family} ${what}`, words.slice(0, isOne ? 1 : undefined).join(" / "));
    }
  }
  return rows;
}

/** A word for each place, for each target; silence takes long, so that all are tried at once. */
function answersTo(
  network: Network,
  targets: readonly Target[],
  protocol: "tcp" | "udp",
): Promise<string[][]> {
  return Promise.all(
    targets.map((target) =>
      Promise.all(PLACES.map((from) => probe(network, { from, protocol, target })))
    ),
  );
}

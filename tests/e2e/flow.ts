/** Connections and what is expected of them. */
import { AssertionError } from "@std/assert";
import type { Network, Protocol } from "../support/network.ts";
import { GATE } from "../support/topology.ts";
import type { Outcome } from "../support/traffic.ts";
import { type Addresses, type Host, NODE_PORT, PORT, TARGET_PORT } from "./cluster.ts";

/** Connections from one host to one address, by TCP and by UDP where nothing else is said. */
export interface Flow {
  readonly from: Host;
  /** The source address, where it is not the host's own. */
  readonly source?: string;
  readonly to: string;
  /** 80 by default. */
  readonly port?: number;
  readonly protocols?: readonly Protocol[];
  /**
   * The hosts that answer, each of them and no other, or what becomes of the packets. `world`: no
   * rule touched them, and they left by the default route.
   */
  readonly reaches: readonly Host[] | "reject" | "drop" | "world";
  /** True if the endpoint sees an address of the node's instead of the client's; false by default. */
  readonly masqueraded?: boolean;
  /** The endpoint's port, 8080 by default. */
  readonly targetPort?: number;
}

/**
 * So many tries for each expected endpoint: of 4 endpoints one goes unseen once in 10^6 runs.
 * All are made: who stops when each endpoint was seen once misses one too many.
 */
const TRIES_PER_ENDPOINT = 16;
const TRIES = 3;
/** Milliseconds; an answer may take long on a busy machine, silence needs no patience. */
const ANSWER_TIMEOUT = 10_000;
const SILENCE = 700;

/**
 * Makes the connections of all flows side by side, and compares what becomes of them.
 *
 * @param options.patience milliseconds that an answer may take, 10 000 by default
 */
export async function assertFlows(
  network: Network,
  flows: readonly Flow[],
  options: { readonly patience?: number } = {},
): Promise<void> {
  const { patience = ANSWER_TIMEOUT } = options;
  const runs = flows.flatMap((flow) =>
    (flow.protocols ?? ["tcp", "udp"] as const).map((protocol) =>
      describeMismatch(network, flow, { protocol, patience })
    )
  );
  const mismatches = (await Promise.all(runs)).filter((text) => text !== undefined);
  if (mismatches.length > 0) throw new AssertionError(mismatches.join("\n"));
}

/** A flow to a node port. */
export function nodePortFlow(a: Addresses, flow: Omit<Flow, "to" | "port">): Flow {
  return { ...flow, to: a.node, port: NODE_PORT };
}

async function describeMismatch(
  network: Network,
  flow: Flow,
  { protocol, patience }: { readonly protocol: Protocol; readonly patience: number },
): Promise<string | undefined> {
  const { from, source, to, port = PORT, reaches } = flow;
  const expected = expectedLabels(flow);
  const outcomes = await network.connect({
    from,
    ...(source !== undefined && { source }),
    protocol,
    address: to,
    port,
    times: typeof reaches === "string" ? TRIES : TRIES_PER_ENDPOINT * reaches.length,
    timeout: reaches === "drop" ? SILENCE : patience,
  });
  const seen = [...new Set(outcomes.map(label))].sort().join(", ");
  if (seen === expected) return undefined;
  return `${from} -> ${protocol} ${to} port ${port}: expected ${expected}; got ${seen}`;
}

function expectedLabels(flow: Flow): string {
  const { reaches, masqueraded = false, targetPort = TARGET_PORT } = flow;
  if (typeof reaches === "string") return reaches;
  return reaches.map((host) => endpointLabel(host, targetPort, masqueraded)).sort().join(", ");
}

function label(outcome: Outcome): string {
  if (outcome.type !== "answer") return outcome.type;
  const { host, at, peer } = outcome.answer;
  if (host === "world") return host;
  const isMasqueraded = peer.address !== outcome.source.address;
  const suffix = isMasqueraded && !GATE.includes(peer.address) ? ` as ${peer.address}` : "";
  return endpointLabel(host, at.port, isMasqueraded) + suffix;
}

function endpointLabel(host: string, port: number, isMasqueraded: boolean): string {
  return `${host} port ${port}${isMasqueraded ? " masqueraded" : ""}`;
}

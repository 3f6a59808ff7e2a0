/**
 * Clients that connect to the Service of `hand_over_stage.ts` without a pause, in every way there is.
 */
import { assertEquals } from "@std/assert";
import { FAMILIES, type Family } from "../../lib/model/values/address.ts";
import type { ConnectRequest, Network } from "../support/network.ts";
import type { LongConnection, Outcome } from "../support/traffic.ts";
import { ADDRESSES, NODE_PORT, PORT } from "./cluster.ts";
import { ENDPOINTS } from "./hand_over_stage.ts";

interface SteadyFlow extends ConnectRequest {
  /** True if the endpoint sees the node's address; `undefined`: where it is the client itself. */
  readonly masqueraded: boolean | undefined;
}

/** Every way to reach the Service of one family. */
function steadyFlows(family: Family): SteadyFlow[] {
  const a = ADDRESSES[family];
  return (["tcp", "udp"] as const).flatMap((protocol) => [
    { from: "pod", protocol, address: a.clusterIP, port: PORT, masqueraded: false },
    { from: "node", protocol, address: a.clusterIP, port: PORT, masqueraded: true },
    { from: "local1", protocol, address: a.clusterIP, port: PORT, masqueraded: undefined },
    { from: "client", protocol, address: a.loadBalancer, port: PORT, masqueraded: true },
    { from: "client2", protocol, address: a.node, port: NODE_PORT, masqueraded: true },
  ]);
}

/** The node itself, by a node port on localhost; only kube-proxy's and signpost's iptables mode have it. */
const LOCALHOST_FLOW: SteadyFlow = {
  from: "node",
  source: ADDRESSES[4].loopback,
  address: ADDRESSES[4].loopback,
  port: NODE_PORT,
  masqueraded: true,
};

/** Connections a second, of all flows in turn: a gap of a few milliseconds meets some. */
const RATE = 800;
/** Milliseconds between two looks at what is due. */
const TICK = 1;
/** Connections under way at most: a machine that is too busy gets fewer, and none is lost to a full queue. */
const IN_FLIGHT = 64;
/** Milliseconds; a busy machine may be slow. A lost datagram stays lost, so that UDP tells of drops. */
const PATIENCE = 10_000;

/** Connections of every kind at a steady rate, and some that stay. */
export class SteadyTraffic implements AsyncDisposable {
  readonly #network: Network;
  readonly #flows: readonly SteadyFlow[];
  #due = performance.now();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #pending = new Set<Promise<void>>();
  readonly #failures = new Map<string, number>();
  readonly #stayed: LongConnection[] = [];
  #opened = 0;
  #count = 0;

  private constructor(network: Network, flows: readonly SteadyFlow[]) {
    this.#network = network;
    this.#flows = flows;
    this.#timer = setInterval(() => this.#openDue(), TICK);
  }

  /** @param options.localhost also by a node port on localhost */
  static async start(
    network: Network,
    options: { readonly localhost?: boolean } = {},
  ): Promise<SteadyTraffic> {
    const flows = FAMILIES.flatMap(steadyFlows);
    if (options.localhost) flows.push(LOCALHOST_FLOW);
    await using traffic = new AsyncDisposableStack();
    const steady = traffic.use(new SteadyTraffic(network, flows));
    for (const flow of flows.filter(({ protocol }) => protocol !== "udp")) {
      steady.#stayed.push(await network.stay({ ...flow, timeout: PATIENCE }));
    }
    traffic.move();
    return steady;
  }

  /** Waits until so many more connections have been made. */
  async more(connections: number): Promise<void> {
    const target = this.#count + connections;
    while (this.#count < target) await new Promise((resolve) => setTimeout(resolve, TICK));
  }

  /**
   * Ends it, and sees that every connection was answered, and that those which stayed still work.
   *
   * @returns the number of connections
   */
  async stop(): Promise<number> {
    await this.#end();
    for (const connection of this.#stayed) {
      assertEquals(await connection.exchange("still there"), "still there");
    }
    assertEquals(Object.fromEntries(this.#failures), {}, `of ${this.#count} connections`);
    return this.#count;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    for (const connection of this.#stayed) connection.close();
  }

  async #end(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
  }

  #openDue(): void {
    const now = performance.now();
    for (; this.#due <= now && this.#pending.size < IN_FLIGHT; this.#due += 1000 / RATE) {
      const flow = this.#flows[this.#opened++ % this.#flows.length];
      if (flow) this.#connect(flow);
    }
    // What a busy machine has missed is not made up for.
    this.#due = Math.max(this.#due, now);
  }

  #connect(flow: SteadyFlow): void {
    const attempt = this.#network.connect({ ...flow, times: 1, timeout: PATIENCE })
      .then(([outcome]) => outcome && failureOf(outcome, flow), String)
      .then((failure) => {
        this.#count++;
        if (failure === undefined) return;
        const { from, protocol = "tcp", address } = flow;
        const what = `${protocol} from ${from} to ${address}: ${failure}`;
        this.#failures.set(what, (this.#failures.get(what) ?? 0) + 1);
      });
    const pending: Promise<void> = attempt.finally(() => this.#pending.delete(pending));
    this.#pending.add(pending);
  }
}

function failureOf(outcome: Outcome, { from, masqueraded }: SteadyFlow): string | undefined {
  if (outcome.type === "reject") return outcome.error;
  if (outcome.type === "drop") return "silence";
  const { host, peer } = outcome.answer;
  if (!ENDPOINTS.some((endpoint) => endpoint === host)) return `answered by ${host}`;
  const isMasqueraded = peer.address !== outcome.source.address;
  if (isMasqueraded === (masqueraded ?? host === from)) return undefined;
  return isMasqueraded ? "masqueraded" : "not masqueraded";
}

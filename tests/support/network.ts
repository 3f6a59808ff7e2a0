/**
 * A cluster's network in namespaces: the node under test, hosts around it, and the rest of the
 * world.
 *
 * ```
 *   host ── <host> ┐
 *   host ── <host> ┤ node ├ eth0 ── world
 *   host ── <host> ┘
 * ```
 *
 * A host is a pod of the node, another node's pod or a client outside: whatever its addresses and
 * the rules make of it. Its link is named after it on the node's side. Whatever the node has no
 * route for goes to `world`, which answers on every address and port, so that a packet which no
 * rule touched is told apart from a dropped one. Needs root.
 */
import { existsSync } from "node:fs";
import { Backends } from "./backend.ts";
import { type CommandOptions, run } from "./command.ts";
import { EventLoop } from "./event_loop.ts";
import { Libc } from "./libc.ts";
import { FORWARDING, Namespaces } from "./namespaces.ts";
import { SctpProbes } from "./sctp.ts";
import { addressesOf, layOut, NODE, WORLD, WORLD_PORT, WORLD_RULES } from "./topology.ts";
import type { Topology } from "./topology.ts";
import { Clients, type LongConnection, type Outcome } from "./traffic.ts";

/** One kind of connection to try. */
export interface ConnectRequest {
  /** The host, or `node`. */
  readonly from: string;
  /** The source address; by default the host's first of the destination's family. */
  readonly source?: string;
  /** The source port; by default any free one. */
  readonly sourcePort?: number;
  readonly protocol?: Protocol;
  readonly address: string;
  readonly port: number;
  /** How often; once by default. */
  readonly times?: number;
  /** Milliseconds of silence that count as a drop; 700 by default. */
  readonly timeout?: number;
}

/** SCTP is raw INIT chunks, see `SctpProbes`. */
export type Protocol = "tcp" | "udp" | "sctp";

const IN_FLIGHT = 32;

/** False after `ipv6.disable=1`. */
const HAS_IPV6 = existsSync("/proc/sys/net/ipv6");

/** Namespaces, servers and clients of one test; all of them go when it is disposed. */
export class Network implements AsyncDisposable {
  readonly #topology: Topology;
  readonly #libc: Libc;
  readonly #namespaces: Namespaces;
  readonly #backends: Backends;
  readonly #clients: Clients;
  readonly #sctp: SctpProbes;
  readonly #resources: AsyncDisposableStack;

  private constructor(topology: Topology, parts: {
    readonly namespaces: Namespaces;
    readonly libc: Libc;
    readonly loop: EventLoop;
    readonly resources: AsyncDisposableStack;
  }) {
    this.#topology = topology;
    this.#libc = parts.libc;
    this.#namespaces = parts.namespaces;
    this.#resources = parts.resources;
    this.#backends = new Backends(parts.libc, parts.loop);
    this.#clients = new Clients(parts.libc, parts.loop);
    this.#sctp = new SctpProbes(parts.libc, parts.loop);
  }

  /** Makes the namespaces, links, addresses and routes. */
  static async create(topology: Topology): Promise<Network> {
    if (Deno.uid() !== 0) throw new Error("network namespaces need root: run the tests with sudo");
    await using resources = new AsyncDisposableStack();
    const libc = resources.use(new Libc());
    const names = [NODE, WORLD, ...Object.keys(topology.hosts)];
    const namespaces = resources.use(await Namespaces.create(libc, names));
    namespaces.setSysctls(NODE, FORWARDING);
    const commands = layOut(topology, (name) => namespaces.fullName(name), HAS_IPV6);
    for (const [name, lines] of commands) await namespaces.ip(name, lines);
    const loop = resources.use(new EventLoop(libc));
    const network = new Network(topology, { namespaces, libc, loop, resources: resources.move() });
    await network.run(WORLD, ["nft", "-f", "-"], { stdin: WORLD_RULES });
    for (const protocol of ["tcp", "udp"] as const) {
      network.serve(WORLD, { protocol, port: WORLD_PORT });
    }
    return network;
  }

  /** The name by which `ip netns` knows a host, `node` or `world`. */
  namespaceOf(name: string): string {
    return this.#namespaces.fullName(name);
  }

  /**
   * Opens a server on all addresses of a host, or on some address of it.
   *
   * @returns closes it; what is not closed goes with the network
   */
  serve(host: string, where: {
    readonly protocol: "tcp" | "udp";
    readonly port: number;
    readonly address?: string;
  }): () => void {
    const addresses = where.address === undefined
      ? addressesOf(this.#topology, host, HAS_IPV6)
      : [where.address];
    const closers = addresses.map((address) =>
      this.#backends.listen({
        namespace: this.#namespaces.handle(host),
        host,
        protocol: where.protocol,
        at: { address, port: where.port },
      })
    );
    return () => closers.forEach((close) => close());
  }

  /** Hears SCTP on all ports of the node, the hosts and `world`. */
  hearSctp(): void {
    for (const host of [NODE, WORLD, ...Object.keys(this.#topology.hosts)]) {
      const namespace = this.#namespaces.handle(host);
      const addresses = host === WORLD
        ? ["0.0.0.0", "::"]
        : addressesOf(this.#topology, host, HAS_IPV6);
      for (const address of addresses) this.#sctp.listen({ namespace, host, address });
    }
  }

  /** Opens connections, some at a time, and tells what became of each. */
  async connect(request: ConnectRequest): Promise<Outcome[]> {
    const { protocol = "tcp", times = 1 } = request;
    const outcomes: Outcome[] = [];
    let left = times;
    const worker = async () => {
      while (left-- > 0) {
        const client = this.#client(request);
        outcomes.push(
          protocol === "sctp"
            ? await this.#sctp.probe(client)
            : await this.#clients.connect({ ...client, protocol }),
        );
      }
    };
    await Promise.all(Array.from({ length: Math.min(times, IN_FLIGHT) }, worker));
    return outcomes;
  }

  /** Opens a TCP connection that stays open until it is closed, or the network disposed. */
  stay(request: Omit<ConnectRequest, "protocol" | "times">): Promise<LongConnection> {
    return this.#clients.stay(this.#client(request));
  }

  /** Opens a TCP connection, sends a text, and gives all that comes back until the other side ends it. */
  request(request: Omit<ConnectRequest, "protocol" | "times">, text: string): Promise<string> {
    return this.#clients.request(this.#client(request), text);
  }

  /** Runs a synchronous function with this thread in the namespace of a host, or `node`. */
  inside<T>(host: string, body: () => T): T {
    return this.#libc.inside(this.#namespaces.handle(host), body);
  }

  /** Runs a program that must succeed in the namespace of a host, or `node`; gives its output. */
  run(host: string, argv: readonly string[], options: CommandOptions = {}): Promise<string> {
    return run(["ip", "netns", "exec", this.namespaceOf(host), ...argv], options);
  }

  /** Runs an `nft` script in the node. */
  async applyNft(script: string): Promise<void> {
    await this.run(NODE, ["nft", "-f", "-"], { stdin: script });
  }

  /** Runs `ip` commands in a host, or `node`; those that begin with `-6 ` are for IPv6. */
  ip(host: string, commands: readonly string[]): Promise<void> {
    return this.#namespaces.ip(host, commands);
  }

  /** Forgets all connections that the node tracks. */
  async flushConntrack(): Promise<void> {
    await this.run(NODE, ["conntrack", "-F"]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  #client(request: ConnectRequest) {
    const { from, address, port, sourcePort = 0, timeout = 700 } = request;
    const isIpv6 = address.includes(":");
    const source = request.source ??
      addressesOf(this.#topology, from, HAS_IPV6).find((own) => own.includes(":") === isIpv6);
    if (source === undefined) throw new Error(`${from} has no address of the family of ${address}`);
    return {
      namespace: this.#namespaces.handle(from),
      source: { address: source, port: sourcePort },
      destination: { address, port },
      timeout,
    };
  }
}

/** Follows the addresses and sockets of this machine, and ports where a Service would cut the daemon off. */
import { addressInProc, isSpecialAddress, parseAddress } from "../../model/values/address.ts";
import { portOf, splitHostPort, unbracketed } from "../../model/cluster/names.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { sameValue } from "../../model/values/record.ts";
import { apiServerPort, type ListeningSocket, type OwnPort } from "../../policy/claims.ts";
import type { DesiredOptions } from "../../policy/node.ts";

interface OwnPortsOptions {
  readonly configuration: Pick<Configuration, "healthzBindAddress">;
  /** Returns the API server of the kubeconfig; `undefined` for manifests, which reserve no port. */
  readonly locate: (() => Promise<URL>) | undefined;
  readonly runtime: Pick<Runtime, "clock" | "resolve" | "addresses" | "streamer">;
}

/** Milliseconds between two looks for the API server's addresses. */
const PERIOD = 30_000;
/** Milliseconds between two looks while its addresses are unknown. */
const FIRST_PERIOD = 1_000;
/** Milliseconds for the first look, before the first rules. */
const FIRST_LOOK = 5_000;
/** Milliseconds for which an address still counts after the name stopped leading to it: names may rotate. */
const KEPT = 3_600_000;

/** The first port where any user may listen. From there on, only root's sockets count. */
const UNPRIVILEGED = 1_024;

/** Ports of this machine that Services cannot have. */
export interface PortFacts {
  readonly ports: readonly OwnPort[];
  readonly sockets: readonly ListeningSocket[];
}

interface MachineFacts extends PortFacts {
  /** The addresses of all interfaces: claims depend on them, and health-check node ports listen there. */
  readonly addresses: readonly string[];
}

/** Returns options that follow these facts. `null`: manifests reserve no port. */
export function portOptions(
  facts: (() => PortFacts) | null,
  runtime: Pick<Runtime, "addresses">,
): Pick<DesiredOptions, "ownAddresses" | "ownPorts" | "listeningSockets"> {
  return facts
    ? {
      ownAddresses: () => runtime.addresses(),
      ownPorts: () => facts().ports,
      listeningSockets: () => facts().sockets,
    }
    : {};
}

/** Keeps the daemon's own ports, and follows the API server's name. */
export class OwnPorts {
  /** By `address port`, with the time of the last look that found it, on the monotonic clock. */
  readonly #seen = new Map<string, { readonly port: OwnPort; readonly at: number }>();
  #known: MachineFacts;
  #sockets: readonly ListeningSocket[] = [];

  constructor(private readonly options: OwnPortsOptions) {
    this.#known = this.#read();
  }

  get desiredOptions(): ReturnType<typeof portOptions> {
    return portOptions(this.options.locate ? () => this.#known : null, this.options.runtime);
  }

  /** Returns the last facts; `null`: manifests reserve no port. */
  get facts(): PortFacts | null {
    return this.options.locate ? this.#known : null;
  }

  /** Looks once, within a time limit. `follow` looks again. */
  async begin(signal: AbortSignal): Promise<void> {
    await Promise.race([this.look(), this.options.runtime.clock.sleep(FIRST_LOOK, signal)]);
  }

  /** Looks once. If the server is not found, its last addresses stay. @returns true after a change */
  async look(): Promise<boolean> {
    const { locate, runtime } = this.options;
    const at = runtime.clock.monotonic();
    const found = locate ? await findServer(locate, runtime).catch(() => []) : [];
    for (const port of found) this.#seen.set(`${port.address} ${port.port}`, { port, at });
    for (const [key, seen] of this.#seen) {
      if (found.length > 0 && at - seen.at > KEPT) this.#seen.delete(key);
    }
    // Claims need the sockets. They are checked with an API server only.
    if (locate) this.#sockets = await readSockets(runtime).catch(() => this.#sockets);
    const known = this.#read();
    if (sameValue(known, this.#known)) return false;
    this.#known = known;
    return true;
  }

  async follow(changed: () => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const pause = this.options.locate && this.#seen.size === 0 ? FIRST_PERIOD : PERIOD;
      await this.options.runtime.clock.sleep(pause, signal);
      if (!signal.aborted && await this.look()) changed();
    }
  }

  #read(): MachineFacts {
    const { configuration, locate, runtime } = this.options;
    const ports = [
      ...[...this.#seen.values()].map(({ port }) => port),
      ...locate ? healthPorts(configuration.healthzBindAddress) : [],
    ];
    const addresses = runtime.addresses().filter((address) => !isSpecialAddress(address)).sort();
    return { ports, addresses, sockets: this.#sockets };
  }
}

/** Matches a socket of `/proc/net/tcp` and the like: address, port, state and the uid of its owner. */
const SOCKET =
  /^ *\d+: ([0-9A-F]{8,32}):([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) ([0-9A-F]{2})(?: +\S+){3} +(\d+) /;
/** The states of TCP's LISTEN, and of a UDP socket without a peer (`include/net/tcp_states.h`). */
const RECEIVES = { tcp: "0A", udp: "07" } as const;

/** Reads the sockets where programs receive new packets. `cat` reads the files: Deno lacks the right to. */
async function readSockets({ streamer }: Pick<Runtime, "streamer">): Promise<ListeningSocket[]> {
  const sockets: ListeningSocket[] = [];
  const { signal } = new AbortController();
  for (const protocol of ["tcp", "udp"] as const) {
    for (const file of [protocol, `${protocol}6`]) {
      for await (const line of streamer.lines(["cat", `/proc/net/${file}`], signal)) {
        const [found, address = "", port, , state, uid] = SOCKET.exec(line) ?? [];
        // Listening TCP sockets come first, and connections may be 100,000.
        if (found && protocol === "tcp" && state !== RECEIVES.tcp) break;
        const number = Number(`0x${port}`);
        if (state !== RECEIVES[protocol] || uid !== "0" && number >= UNPRIVILEGED) continue;
        sockets.push({ protocol, address: addressInProc(address), port: number });
      }
    }
  }
  return sockets.sort((one, other) => one.port - other.port);
}

async function findServer(
  locate: () => Promise<URL>,
  runtime: Pick<Runtime, "resolve">,
): Promise<OwnPort[]> {
  const url = await locate();
  const host = unbracketed(url.hostname);
  const address = parseAddress(host);
  const addresses = address === undefined ? await runtime.resolve(host) : [address];
  return addresses.map((each) => apiServerPort(each, portOf(url)));
}

/** Returns the health server's port. @param bindAddress `address:port`; `""` without a server */
function healthPorts(bindAddress: string): OwnPort[] {
  if (bindAddress === "") return [];
  const { hostname, port } = splitHostPort(bindAddress);
  const host = parseAddress(hostname);
  return [{
    isApiServer: false,
    holder: "this node's health server",
    because: "which load balancers ask whether the node takes traffic",
    address: host === "0.0.0.0" || host === "::" ? undefined : host,
    port,
  }];
}

/**
 * What the policy is to know of the daemon's own machine: the addresses of its interfaces, and the
 * addresses and ports that the daemon cannot do without, its API server's and its health server's. A
 * Service there would lock it out of the very place that tells when the Service goes.
 *
 * @module
 */
import { isSpecialAddress, parseAddress } from "../../model/values/address.ts";
import { splitHostPort, unbracketed } from "../../model/cluster/names.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { sameValue } from "../../model/values/record.ts";
import type { OwnPort } from "../../policy/claims.ts";
import type { DesiredOptions } from "../../policy/state.ts";

/** What `OwnPorts` needs. */
export interface OwnPortsOptions {
  readonly configuration: Pick<Configuration, "healthzBindAddress">;
  /** Where the API server is, as the kubeconfig says now; `undefined`: there is none, and no port is kept. */
  readonly locate: (() => Promise<URL>) | undefined;
  /** True if the rules are for this machine. Without an API server they may be meant for another one. */
  readonly isHere: boolean;
  /** The addresses that the running daemon has read. @default those of the interfaces now */
  readonly knownAddresses?: readonly string[] | undefined;
  readonly runtime: Pick<Runtime, "clock" | "resolve" | "addresses" | "interfaces">;
}

/** Milliseconds between two looks for the API server's addresses. */
const PERIOD = 30_000;
/** The same, while none is known. */
const FIRST_PERIOD = 1_000;
/** Milliseconds for the first look, before the first rules. */
const FIRST_LOOK = 5_000;
/** Milliseconds for which an address that is no longer named still counts: names may rotate. */
const KEPT = 3_600_000;

/** Knows the daemon's own ports, and follows the API server's name. */
export class OwnPorts {
  readonly #options: OwnPortsOptions;
  /** By `address port`, when it was last seen, on the monotonic clock. */
  readonly #seen = new Map<string, { readonly port: OwnPort; readonly at: number }>();
  #ports: readonly OwnPort[];
  #addresses: readonly string[] = [];
  /** Those of all interfaces: health-check node ports listen on virtual IPs, too. */
  #present: readonly string[] = [];

  /** @param options where to look */
  constructor(options: OwnPortsOptions) {
    this.#options = options;
    this.#ports = this.#list();
    if (!options.isHere) return;
    this.#addresses = this.#readAddresses();
    this.#present = presentAddresses(options.runtime);
  }

  /** The interface addresses that the rules have. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** What the policy is to know of this machine. */
  get around(): Pick<DesiredOptions, "ownAddresses" | "interfaceAddresses" | "ownPorts"> {
    const { locate, runtime } = this.#options;
    const interfaceAddresses = () => this.#addresses;
    return locate
      ? {
        interfaceAddresses,
        ownAddresses: () => runtime.addresses(),
        ownPorts: () => this.#ports,
      }
      : { interfaceAddresses };
  }

  /** The API server's addresses, as far as they are known. */
  get serverAddresses(): readonly string[] {
    return [...this.#seen.values()].flatMap(({ port: { address } }) => address ?? []);
  }

  /** Looks once, but not for long: what is not known by then is followed all the same. */
  async begin(signal: AbortSignal): Promise<void> {
    await Promise.race([this.look(), this.#options.runtime.clock.sleep(FIRST_LOOK, signal)]);
  }

  /**
   * Looks once. What cannot be found out stays as it was.
   *
   * @returns whether anything has changed
   */
  async look(): Promise<boolean> {
    const { locate, runtime, isHere } = this.#options;
    if (!isHere) return false;
    const now = runtime.clock.monotonic();
    const found = locate ? await findServer(locate, runtime).catch(() => []) : [];
    for (const port of found) this.#seen.set(`${port.address} ${port.port}`, { port, at: now });
    // While nothing is found, the last addresses are the best guess.
    for (const [key, { at }] of found.length > 0 ? this.#seen : []) {
      if (now - at > KEPT) this.#seen.delete(key);
    }
    const addresses = this.#readAddresses();
    const present = presentAddresses(runtime);
    const hasMoved = !sameValue([addresses, present], [this.#addresses, this.#present]);
    if (!sameValue(addresses, this.#addresses)) this.#addresses = addresses;
    this.#present = present;
    const ports = this.#list();
    if (sameValue(ports, this.#ports)) return hasMoved;
    this.#ports = ports;
    return true;
  }

  /** Looks again and again until the signal aborts. */
  async follow(changed: () => void, signal: AbortSignal): Promise<void> {
    while (this.#options.isHere && !signal.aborted) {
      const pause = this.#options.locate && this.#seen.size === 0 ? FIRST_PERIOD : PERIOD;
      await this.#options.runtime.clock.sleep(pause, signal);
      if (!signal.aborted && await this.look()) changed();
    }
  }

  #readAddresses(): readonly string[] {
    return this.#options.knownAddresses ?? ownAddresses(this.#options.runtime);
  }

  #list(): OwnPort[] {
    const { configuration: { healthzBindAddress }, locate } = this.#options;
    const health = !locate || healthzBindAddress === "" ? [] : [healthPort(healthzBindAddress)];
    return [...[...this.#seen.values()].map(({ port }) => port), ...health];
  }
}

/**
 * Interfaces on which virtual IPs are put, where all others have the node's own addresses: `lo` and
 * dummies for routers that learn of them, kube-proxy's, PureLB's and kube-router's. An address may have a label of its own, `lo:0`.
 */
const VIRTUAL = /^(?:lo|dummy.*|kube-ipvs0|kube-lb\d*|kube-dummy-if)(?::.*)?$/;

/** Returns the addresses of interfaces that are the node's own. */
export function ownAddresses({ interfaces }: Pick<Runtime, "interfaces">): string[] {
  const own = interfaces().filter(({ name, address }) =>
    !VIRTUAL.test(name) && !isSpecialAddress(address)
  );
  return [...new Set(own.map(({ address }) => address))].sort();
}

function presentAddresses({ addresses }: Pick<Runtime, "addresses">): string[] {
  return addresses().filter((address) => !isSpecialAddress(address)).sort();
}

async function findServer(
  locate: () => Promise<URL>,
  runtime: Pick<Runtime, "resolve">,
): Promise<OwnPort[]> {
  const url = await locate();
  const host = unbracketed(url.hostname);
  const address = parseAddress(host);
  const addresses = address === undefined ? await runtime.resolve(host) : [address];
  const port = url.port === "" ? (url.protocol === "http:" ? 80 : 443) : Number(url.port);
  return addresses.map((each) => ({
    isApiServer: true,
    holder: "the API server",
    because: "which this node must be able to reach",
    address: each,
    port,
  }));
}

/** @param bindAddress `address:port` */
function healthPort(bindAddress: string): OwnPort {
  const { hostname, port } = splitHostPort(bindAddress);
  const host = parseAddress(hostname);
  return {
    isApiServer: false,
    holder: "this node's health server",
    because: "which load balancers ask whether the node takes traffic",
    address: host === undefined || isUnspecified(host) ? undefined : host,
    port,
  };
}

function isUnspecified(address: string): boolean {
  return address === "0.0.0.0" || address === "::";
}

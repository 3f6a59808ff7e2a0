/**
 * Chooses the endpoint of each connection to a node port on loopback.
 *
 * @module
 */
import type { Destination } from "../model/kernel/desired.ts";
import type { LocalhostNodePort } from "./node_ports.ts";

/** Endpoints that are tried for one connection: each may take the whole timeout. */
const MOST_TRIES = 5;

/** The endpoints of one node port. All local clients are one client to session affinity. */
export class EndpointChoice {
  #port: Pick<LocalhostNodePort, "endpoints" | "affinitySeconds">;
  #pinned: { readonly endpoint: Destination; readonly at: number } | undefined;

  /**
   * @param port where connections may go
   * @param random gives a number from 0 to below 1
   */
  constructor(
    port: Pick<LocalhostNodePort, "endpoints" | "affinitySeconds">,
    private readonly random: () => number,
  ) {
    this.#port = port;
  }

  /** Replaces the endpoints. A new affinity timeout forgets the endpoint that clients stay on. */
  update(port: Pick<LocalhostNodePort, "endpoints" | "affinitySeconds">): void {
    if (port.affinitySeconds !== this.#port.affinitySeconds) this.#pinned = undefined;
    this.#port = port;
  }

  /**
   * Gives endpoints in the order in which they are to be tried, none twice.
   *
   * @param now milliseconds of a clock that does not go back
   */
  *candidates(now: number): Generator<Destination, void> {
    const { endpoints } = this.#port;
    const tried = new Set<number>();
    const pinned = this.#pinnedIndex(now);
    while (tried.size < Math.min(endpoints.length, MOST_TRIES)) {
      const index = tried.size === 0 && pinned >= 0
        ? pinned
        : Math.floor(this.random() * endpoints.length);
      const endpoint = endpoints[index];
      if (tried.has(index) || endpoint === undefined) continue;
      tried.add(index);
      yield endpoint;
    }
  }

  /** Has later clients stay on an endpoint that answered. */
  answered(endpoint: Destination, now: number): void {
    if (this.#port.affinitySeconds > 0) this.#pinned = { endpoint, at: now };
  }

  #pinnedIndex(now: number): number {
    const pinned = this.#pinned;
    if (!pinned || now - pinned.at > this.#port.affinitySeconds * 1000) return -1;
    return this.#port.endpoints.findIndex(({ address, port }) =>
      address === pinned.endpoint.address && port === pinned.endpoint.port
    );
  }
}

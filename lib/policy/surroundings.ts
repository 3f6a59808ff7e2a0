/**
 * Collects the addresses and ports of this node that claims depend on.
 *
 * @module
 */
import { append } from "../model/values/lists.ts";
import { FAMILIES } from "../model/values/address.ts";
import type { Configuration } from "../model/configuration.ts";
import type { DesiredNode } from "../model/kernel/desired.ts";
import type { Snapshot } from "../cache/cache.ts";
import { API_SERVICE, hostPort } from "../model/cluster/names.ts";
import type { Surroundings } from "./claimed.ts";
import type { OwnPort } from "./claims.ts";
import { slicesOf } from "./endpoints.ts";
import { nodeAddress } from "./node.ts";

/** The sources of these facts. */
export interface SurroundingsOptions {
  readonly configuration: Configuration;
  /** Returns canonical addresses of this machine. The Node's addresses are added. */
  readonly ownAddresses?: () => readonly string[];
  /** Returns ports that this process needs. No Service gets a frontend there. */
  readonly ownPorts?: () => readonly OwnPort[];
}

/** No Service can have a link-local address, and each pod's interface adds one. */
const LINK_LOCAL = /^fe[89ab].:/;

/** Keeps the last facts, so that claims are checked again only after a change. */
export class SurroundingsFollower {
  readonly #options: SurroundingsOptions;
  #surroundings: Surroundings | undefined;
  /** The facts as one text. */
  #key = "";

  /** @param options the sources of the facts */
  constructor(options: SurroundingsOptions) {
    this.#options = options;
  }

  /**
   * Reads the facts.
   *
   * @param objects this Node, if seen, and the slices of the API servers
   * @param desired the node's part of the desired state
   * @returns `isNew`: true if all claims must be checked again
   */
  update(
    objects: Pick<Snapshot, "node" | "slicesOf">,
    desired: DesiredNode,
  ): { readonly surroundings: Surroundings; readonly isNew: boolean } {
    const { node } = objects;
    const { configuration, ownAddresses = () => [], ownPorts = () => [] } = this.#options;
    const addresses = ownAddresses().filter((each) => !LINK_LOCAL.test(each));
    append(addresses, node?.addresses ?? []);
    for (const family of FAMILIES) {
      const address = nodeAddress({ configuration, node }, family);
      if (address !== undefined) addresses.push(address);
    }
    const ports = ownPorts();
    const own = [...new Set(addresses)].sort();
    const apiEndpoints = ports.some(({ isApiServer }) => isApiServer)
      ? apiEndpointsOf(objects)
      : [];
    const key = JSON.stringify([own, ports, apiEndpoints, desired.families]);
    const known = key === this.#key ? this.#surroundings : undefined;
    this.#key = key;
    this.#surroundings = known ??
      {
        node: desired,
        ownAddresses: new Set(own),
        ownPorts: ports,
        apiEndpoints: new Set(apiEndpoints),
      };
    return { surroundings: this.#surroundings, isNew: known === undefined };
  }
}

/** Returns the endpoints that API servers publish, in any condition. */
function apiEndpointsOf(objects: Pick<Snapshot, "slicesOf">): string[] {
  return slicesOf(objects, API_SERVICE).flatMap(({ ports, endpoints }) =>
    ports.flatMap(({ port }) => endpoints.map(({ address }) => hostPort(address, port)))
  );
}

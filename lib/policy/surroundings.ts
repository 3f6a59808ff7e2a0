/**
 * What is around the Services of this node: which addresses and ports are its own.
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

/** Who knows them. */
export interface SurroundingsOptions {
  readonly configuration: Configuration;
  /** Canonical addresses of this machine; those that the Node lists count anyway. */
  readonly ownAddresses?: () => readonly string[];
  /** Ports that this process needs itself: no Service becomes a frontend there. */
  readonly ownPorts?: () => readonly OwnPort[];
}

/** No Service can have one; each pod's interface brings one more. */
const LINK_LOCAL = /^fe[89ab].:/;

/** Knows the surroundings of the last look, so that claims are looked at again only where they are others. */
export class SurroundingsFollower {
  readonly #options: SurroundingsOptions;
  #surroundings: Surroundings | undefined;
  /** What the claims depend on, in one text. */
  #key = "";

  /** @param options who knows them */
  constructor(options: SurroundingsOptions) {
    this.#options = options;
  }

  /**
   * Looks at them.
   *
   * @param objects this Node, where it was seen, and the slices of the API servers
   * @param desired the node's part of the desired state
   * @returns `isNew`: all claims have to be looked at again
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

/** The endpoints that API servers publish of themselves, whatever their state. */
function apiEndpointsOf(objects: Pick<Snapshot, "slicesOf">): string[] {
  return slicesOf(objects, API_SERVICE).flatMap(({ ports, endpoints }) =>
    ports.flatMap(({ port }) => endpoints.map(({ address }) => hostPort(address, port)))
  );
}

/**
 * A cluster that was read once, with the desired state of this node.
 *
 * @module
 */
import type { ObjectCache } from "../cache/cache.ts";
import type { Refusal } from "../model/cluster/objects.ts";
import type { Conflict } from "./claims.ts";
import type { Desired } from "./state.ts";

/** The objects, and the state that follows from them for this node. */
export interface State {
  readonly cache: ObjectCache;
  readonly desired: Desired;
  readonly conflicts: readonly Conflict[];
  /** Objects that cannot be used. */
  readonly refused: readonly Refusal[];
  /** Addresses of the API server that sent the objects, as far as known. */
  readonly apiServerAddresses?: readonly string[];
}

/**
 * A cluster as it was read once, and what follows from it for this node.
 *
 * @module
 */
import type { ObjectCache } from "../cache/cache.ts";
import type { Refusal } from "../model/cluster/events.ts";
import type { Conflict } from "./claims.ts";
import type { Desired } from "./state.ts";

/** The objects, and what follows from them for this node. */
export interface State {
  readonly cache: ObjectCache;
  readonly desired: Desired;
  readonly conflicts: readonly Conflict[];
  /** Objects that cannot be used. */
  readonly refused: readonly Refusal[];
  /** Of the API server that gave the objects, as far as they are known. */
  readonly apiServerAddresses?: readonly string[];
}

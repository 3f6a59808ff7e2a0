/**
 * The facts that node findings are worked out from: plain values, gathered by the daemon or by `check`.
 *
 * @module
 */
import type { Configuration } from "../model/configuration.ts";
import type { DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type { Node } from "../model/cluster/objects.ts";

/** All that is known of a node. A part that is absent was not read, and its checks find nothing. */
export interface NodeFacts {
  readonly nodeName: string;
  /** As it was given: the mode may be open. */
  readonly configuration: Configuration;
  /** Of the mode in effect. */
  readonly traits: ModeTraits;
  /** The addresses of all network interfaces, canonical. */
  readonly interfaceAddresses: readonly string[];
  /** Present once every list is complete. */
  readonly objects?: ObjectFacts | undefined;
}

/** The objects, and the state that follows from them. */
export interface ObjectFacts {
  /** `undefined`: no Node of this name exists. */
  readonly node: Node | undefined;
  readonly desired: DesiredState;
}

/** Service ports that are looked at before other work can be done; ten endpoints count as one. */
const BATCH = 100;

/**
 * Looks at the ports of all Services.
 *
 * @param look returns true when it has seen enough
 * @yields if other work can be done
 */
export function* eachPort(
  { services }: DesiredState,
  look: (port: DesiredServicePort) => boolean,
): Generator<undefined, void> {
  let weight = 0;
  for (const ports of services.values()) {
    for (const port of ports) {
      if (look(port)) return;
      weight += 1 + port.clusterEndpoints.length / 10;
    }
    if (weight < BATCH) continue;
    yield;
    weight = 0;
  }
}

/**
 * Works out which node ports need a listener on loopback.
 *
 * @module
 */
import type { Family } from "../model/values/address.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  Destination,
  StateChange,
} from "../model/kernel/desired.ts";
import { localhostEndpoints } from "../policy/localhost.ts";
import type { SyncOutcome } from "../sync/outcome.ts";

/** A node port that a listener serves. */
export interface LocalhostNodePort {
  /** `namespace/name:port`. */
  readonly servicePort: string;
  readonly family: Family;
  readonly port: number;
  /** At least one. */
  readonly endpoints: readonly Destination[];
  /** Seconds for which local clients stay on one endpoint; 0: each connection is on its own. */
  readonly affinitySeconds: number;
}

/** Returns the listener that a service port needs; `undefined` if it needs none. */
export function localhostNodePort(
  port: DesiredServicePort,
  node: DesiredNode,
): LocalhostNodePort | undefined {
  const endpoints = localhostEndpoints(port, node);
  if (endpoints.length === 0) return undefined;
  const { name: servicePort, family, nodePort, affinitySeconds } = port;
  return { servicePort, family, port: nodePort, endpoints, affinitySeconds };
}

/** Follows the desired state; what changed is worked out again, and nothing else. */
export class LocalhostNodePorts {
  #wanted: ReadonlyMap<string, LocalhostNodePort> = new Map();
  /** The state is not that of `#wanted`: a sync failed. */
  #isBehind = true;

  /** @param state the desired state, which the outcomes are about */
  constructor(private readonly state: DesiredState) {}

  /** The listeners that the desired state needs, by family and port. Another map after each change. */
  get wanted(): ReadonlyMap<string, LocalhostNodePort> {
    return this.#wanted;
  }

  /**
   * Takes the outcome of a sync in.
   *
   * @yields where other work can be done
   */
  *following(
    { change, done, full }: Pick<SyncOutcome, "change" | "done" | "full">,
  ): Generator<undefined, void> {
    this.#isBehind ||= full || !done || change.node !== undefined;
    if (!done) return;
    const { node, services } = this.state;
    const isServed = node.ipFamilies.some((family) =>
      node.families[family].loopback === "listeners"
    );
    if (!isServed) this.#wanted = this.#wanted.size === 0 ? this.#wanted : new Map();
    else if (this.#isBehind) this.#wanted = new Map(yield* this.#wantedOf(services.values()));
    else yield* this.#change(change.services);
    this.#isBehind = false;
  }

  /** A node port may go from one Service to another: first all that went, then all that came. */
  *#change(services: StateChange["services"]): Generator<undefined, void> {
    const gone: string[] = [];
    for (const { before } of services.values()) {
      for (const { protocol, family, nodePort } of before) {
        const key = keyOf(family, nodePort);
        if (protocol === "tcp" && this.#wanted.has(key)) gone.push(key);
      }
      yield;
    }
    const come = yield* this.#wantedOf([...services.values()].map(({ after }) => after));
    if (gone.length + come.length === 0) return;
    const wanted = new Map(this.#wanted);
    for (const key of gone) wanted.delete(key);
    for (const [key, each] of come) wanted.set(key, each);
    this.#wanted = wanted;
  }

  *#wantedOf(
    services: Iterable<readonly DesiredServicePort[]>,
  ): Generator<undefined, (readonly [string, LocalhostNodePort])[]> {
    const wanted: (readonly [string, LocalhostNodePort])[] = [];
    for (const ports of services) {
      for (const port of ports) {
        const each = localhostNodePort(port, this.state.node);
        if (each) wanted.push([keyOf(each.family, each.port), each]);
      }
      yield;
    }
    return wanted;
  }
}

function keyOf(family: Family, port: number): string {
  return `${family} ${port}`;
}

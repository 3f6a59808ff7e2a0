/** Decides which node ports need a listener on loopback. */
import type { Family } from "../model/values/address.ts";
import type {
  DesiredServicePort,
  DesiredState,
  Destination,
  StateChange,
} from "../model/kernel/desired.ts";
import { localhostEndpoints } from "../policy/frontend.ts";
import type { SyncOutcome } from "../sync/reports.ts";

export interface LocalhostNodePort {
  /** `namespace/name:port`. */
  readonly servicePort: string;
  readonly family: Family;
  readonly port: number;
  /** At least one. */
  readonly endpoints: readonly Destination[];
  /** Seconds that local clients stay on one endpoint; 0 if there is no affinity. */
  readonly affinitySeconds: number;
}

/** Follows the desired state. It looks at changed Services only. */
export class LocalhostNodePorts {
  #wanted: ReadonlyMap<string, LocalhostNodePort> = new Map();
  /** True if `#wanted` is older than the state, because a sync failed. */
  #isBehind = true;

  constructor(private readonly state: DesiredState) {}

  /** The wanted listeners by family and port. A change makes a new map. */
  get wanted(): ReadonlyMap<string, LocalhostNodePort> {
    return this.#wanted;
  }

  /** Follows the outcome of a sync. @yields when other work can run */
  *following({ change, applied, isFull }: SyncOutcome): Generator<undefined, void> {
    this.#isBehind ||= isFull || applied === undefined || change.node !== undefined;
    if (applied === undefined) return;
    const { node, services } = this.state;
    const isServed = node.ipFamilies.some((family) =>
      node.families[family].loopback === "listeners"
    );
    if (!isServed) this.#wanted = this.#wanted.size === 0 ? this.#wanted : new Map();
    else if (this.#isBehind) this.#wanted = new Map(yield* this.#wantedOf(services.values()));
    else yield* this.#change(change.services);
    this.#isBehind = false;
  }

  /** Removes all old ports first, because a port may move to another Service. */
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
        const endpoints = localhostEndpoints(port, this.state.node);
        const { name: servicePort, family, nodePort, affinitySeconds } = port;
        const each = { servicePort, family, port: nodePort, endpoints, affinitySeconds };
        if (endpoints.length > 0) wanted.push([keyOf(family, nodePort), each]);
      }
      yield;
    }
    return wanted;
  }
}

function keyOf(family: Family, port: number): string {
  return `${family} ${port}`;
}

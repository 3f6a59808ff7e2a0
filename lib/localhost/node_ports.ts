/** Decides which node ports need a listener on loopback. */
import type { Family } from "../model/values/address.ts";
import type { DesiredServicePort, DesiredState, Destination } from "../model/kernel/desired.ts";
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
  /** The Services with wanted listeners. */
  readonly #byService = new Map<string, readonly LocalhostNodePort[]>();
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
    const { services } = this.state;
    let isChanged = this.#isBehind;
    if (this.#isBehind) this.#byService.clear();
    for (const key of (this.#isBehind ? services : change.services).keys()) {
      const wanted = (services.get(key) ?? []).flatMap((port) => this.#wantedOf(port));
      isChanged = this.#byService.delete(key) || wanted.length > 0 || isChanged;
      if (wanted.length > 0) this.#byService.set(key, wanted);
      yield;
    }
    this.#isBehind = false;
    if (!isChanged) return;
    const all = [...this.#byService.values()].flat();
    this.#wanted = new Map(all.map((each) => [`${each.family} ${each.port}`, each]));
  }

  #wantedOf(port: DesiredServicePort): LocalhostNodePort[] {
    const { name: servicePort, family, nodePort, affinitySeconds } = port;
    const endpoints = localhostEndpoints(port, this.state.node);
    return endpoints.length === 0
      ? []
      : [{ servicePort, family, port: nodePort, endpoints, affinitySeconds }];
  }
}

/** Decides which node ports need a listener on loopback, and finds those that have none. */
import type { Family } from "../model/values/address.ts";
import { hostPort } from "../model/cluster/names.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  Destination,
} from "../model/kernel/desired.ts";
import type { ServiceDifference } from "../model/kernel/differences.ts";
import { LISTEN_ADDRESS, localhostEndpoints } from "../policy/frontend.ts";
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
      const wanted = wantedListeners(services.get(key) ?? [], this.state.node);
      isChanged = this.#byService.delete(key) || wanted.length > 0 || isChanged;
      if (wanted.length > 0) this.#byService.set(key, wanted);
      yield;
    }
    this.#isBehind = false;
    if (!isChanged) return;
    const all = [...this.#byService.values()].flat();
    this.#wanted = new Map(all.map((each) => [`${each.family} ${each.port}`, each]));
  }
}

/** Returns the listeners that service ports need. */
export function wantedListeners(
  ports: readonly DesiredServicePort[],
  node: DesiredNode,
): LocalhostNodePort[] {
  return ports.flatMap((each) => {
    const { name: servicePort, family, nodePort: port, affinitySeconds } = each;
    const endpoints = localhostEndpoints(each, node);
    return endpoints.length === 0
      ? []
      : [{ servicePort, family, port, endpoints, affinitySeconds }];
  });
}

/** The addresses as /proc/net/tcp and /proc/net/tcp6 write them: words of 32 bits, each byte swapped. */
const IN_PROC: Readonly<Record<Family, string>> = {
  4: "0100007F",
  6: "00000000000000000000000001000000",
};

type Listener = Pick<LocalhostNodePort, "servicePort" | "family" | "port">;

/** Returns the listeners that are missing. @param sockets the text of /proc/net/tcp and /proc/net/tcp6 (proc(5)) */
export function missingListeners(
  wanted: readonly Listener[],
  sockets: string,
): ServiceDifference[] {
  // The state 0A is LISTEN.
  const listening = new Set(
    [...sockets.matchAll(/^\s*\d+: ([0-9A-F]+:[0-9A-F]{4}) [0-9A-F:]+ 0A /gm)]
      .map(([, address]) => address),
  );
  const inProc = ({ family, port }: Listener) =>
    `${IN_PROC[family]}:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return wanted.filter((each) => !listening.has(inProc(each)))
    .map(({ family, port, servicePort }) => ({
      type: "missing",
      in: "listeners on loopback",
      key: hostPort(LISTEN_ADDRESS[family], port),
      desired: "",
      held: "",
      service: servicePort,
    }));
}

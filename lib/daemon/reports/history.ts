/** Remembers the last changes of Services, and how long each took to reach the kernel. */
import type { ObjectCache } from "../../cache/cache.ts";
import { hostPort, objectKey } from "../../model/cluster/names.ts";
import type {
  Endpoint,
  EndpointSlice,
  ObjectChange,
  ObjectEvent,
} from "../../model/cluster/objects.ts";
import {
  type DesiredServicePort,
  type Destination,
  type ServiceChange,
  usedEndpoints,
} from "../../model/kernel/desired.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { HistoryEntry } from "../../model/status.ts";
import { grouped } from "../../model/values/text.ts";
import type { SyncOutcome } from "../../sync/reports.ts";

/** Changes that are kept, in all and of one Service. */
const MOST = 2_000;
const MOST_OF_A_SERVICE = 20;

/** Endpoints that one entry names. */
const MOST_NAMED = 3;

/** Endpoints of a Service that are compared one by one. */
const MOST_COMPARED = 2_000;

export class History {
  #entries: HistoryEntry[] = [];
  /** By Service, the monotonic time of its first event that no sync has written. */
  #waiting = new Map<string, number>();
  /** The same, of those that the running sync takes. */
  #taken = new Map<string, number>();
  #isStarted = false;

  constructor(
    private readonly options: {
      readonly cache: Pick<ObjectCache, "slices" | "slicesOf" | "isWaiting">;
      readonly clock: Pick<Clock, "now" | "monotonic">;
    },
  ) {}

  /** Returns the changes of one Service, or of all, the newest first. */
  changes(service?: string): HistoryEntry[] {
    const isAsked = (each: HistoryEntry) => service === undefined || each.service === service;
    return this.#entries.filter(isAsked).reverse();
  }

  /** Notes when a change came. The cache does not have it yet. */
  seen(event: ObjectEvent): void {
    if (!this.#isStarted || event.kind !== "Service" && event.kind !== "EndpointSlice") return;
    const { cache, clock } = this.options;
    for (const change of event.type === "replace" ? event.changes.values() : [event]) {
      const service = serviceOf(change, cache);
      if (service === undefined || cache.isWaiting(service) && this.#waiting.has(service)) continue;
      this.#waiting.set(service, clock.monotonic());
    }
  }

  /** Called when a sync takes all changes so far. */
  started(): void {
    for (const [service, at] of this.#waiting) this.#taken.getOrInsert(service, at);
    this.#waiting = new Map();
  }

  /** Notes what a sync has written. A sync that failed is followed by another. */
  follow({ change, applied }: Pick<SyncOutcome, "change" | "applied">): void {
    if (applied === undefined) return;
    const { cache, clock } = this.options;
    const [at, written] = [new Date(clock.now()).toISOString(), clock.monotonic()];
    // The first sync writes the state of the start.
    const added = [...this.#isStarted ? change.services : []].slice(-MOST)
      .map(([service, each]) => {
        const began = this.#taken.get(service);
        const milliseconds = began === undefined ? null : Math.round(written - began);
        return { at, service, what: describe(each, cache.slicesOf(service)), milliseconds };
      });
    this.#keep(added.filter(({ what }) => what !== ""));
    this.#isStarted = true;
    this.#taken = new Map();
  }

  #keep(added: readonly HistoryEntry[]): void {
    if (added.length === 0) return;
    const counts = new Map<string, number>();
    this.#entries = [...this.#entries, ...added].reverse().filter(({ service }) => {
      const known = counts.get(service) ?? 0;
      counts.set(service, known + 1);
      return known < MOST_OF_A_SERVICE;
    }).slice(0, MOST).reverse();
  }
}

function serviceOf(
  change: ObjectChange,
  { slices }: Pick<ObjectCache, "slices">,
): string | undefined {
  if (change.kind === "Service") return change.key;
  if (change.kind !== "EndpointSlice") return undefined;
  const slice = change.type === "upsert" ? change.object : slices.get(change.key);
  return slice && objectKey({ namespace: slice.namespace, name: slice.serviceName });
}

/** Words a change: `endpoint 10.244.0.11:8080 added`; `""` if packets do not meet it. */
function describe({ before, after }: ServiceChange, slices: readonly EndpointSlice[]): string {
  if (before === after) return "";
  if (before.length === 0) return "Service added";
  if (after.length === 0) return "Service removed";
  const [old, now] = [endpointsOf(before), endpointsOf(after)];
  if (old.size > MOST_COMPARED || now.size > MOST_COMPARED) {
    return `${grouped(old.size)} endpoints became ${grouped(now.size)}, or others`;
  }
  const present = new Map(
    slices.flatMap(({ endpoints }) => endpoints).map((each) => [each.address, each]),
  );
  const gone = [...old.values()].filter((each) => !now.has(textOf(each)));
  const parts = [
    ...named([...now.values()].filter((each) => !old.has(textOf(each))), "added"),
    ...Map.groupBy(gone, ({ address }) => stateOf(present.get(address))).entries()
      .flatMap(([state, each]) => named(each, state)),
  ];
  return parts.length > 0 ? parts.join(", ") : "Service changed";
}

type Place = Pick<Destination, "address" | "port">;

function endpointsOf(ports: readonly DesiredServicePort[]): ReadonlyMap<string, Place> {
  return new Map(ports.flatMap((port) => usedEndpoints(port)).map((each) => [textOf(each), each]));
}

function textOf({ address, port }: Place): string {
  return hostPort(address, port);
}

function stateOf(endpoint: Endpoint | undefined): string {
  if (!endpoint) return "gone";
  return endpoint.terminating ? "terminating" : endpoint.ready ? "not used" : "not ready";
}

/** Words a change of some endpoints. */
function* named(endpoints: readonly Place[], state: string): Generator<string> {
  if (endpoints.length === 0) return;
  const names = endpoints.slice(0, MOST_NAMED).map(textOf).join(", ");
  const more = endpoints.length - MOST_NAMED;
  const word = endpoints.length === 1 ? "endpoint" : "endpoints";
  yield `${word} ${names}${more > 0 ? ` and ${more} more` : ""} ${state}`;
}

/** Keeps the last changes of Services, how long each took to reach the kernel, and the sync that wrote it. */
import { type ObjectCache, serviceOfSlice } from "../../cache/cache.ts";
import type { EndpointSlice, ObjectChange, ObjectEvent } from "../../model/cluster/objects.ts";
import type { DesiredServicePort, Destination, ServiceChange } from "../../model/kernel/desired.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { HistoryEntry, WrittenBy } from "../../model/status.ts";
import { shortList } from "../../model/values/text.ts";
import { keyOf } from "../../policy/endpoints.ts";
import type { SyncOutcome } from "../../sync/reports.ts";
import type { Desired } from "../../policy/state.ts";

/** The most changes that are kept, in all and of one Service. */
const MOST = 2_000;
const MOST_OF_A_SERVICE = 20;

export class History {
  /** The newest first. */
  #entries: readonly HistoryEntry[] = [];
  /** By Service, the monotonic time of its first event that is not written yet. */
  #waiting = new Map<string, number>();
  /** The same, for events of the running sync. */
  #taken = new Map<string, number>();
  #isStarted = false;

  constructor(
    private readonly options: {
      readonly cache: Pick<ObjectCache, "slices" | "slicesOf" | "isWaiting">;
      readonly clock: Pick<Clock, "now" | "monotonic">;
    },
  ) {}

  /** Returns the changes of one Service, or of all, the newest first. */
  changes(service?: string): readonly HistoryEntry[] {
    return this.#entries.filter((each) => service === undefined || each.service === service);
  }

  /** Notes when a change came. The cache does not have it yet. */
  seen(event: ObjectEvent): void {
    if (!this.#isStarted) return;
    const { cache, clock } = this.options;
    for (const change of event.type === "replace" ? event.changes.values() : [event]) {
      const service = serviceIn(change, cache);
      if (service === undefined || cache.isWaiting(service) && this.#waiting.has(service)) continue;
      this.#waiting.set(service, clock.monotonic());
    }
  }

  /** Notes that a sync takes all changes so far. */
  started(): void {
    for (const [service, at] of this.#waiting) this.#taken.getOrInsert(service, at);
    this.#waiting = new Map();
  }

  /** Notes the changes that a sync has written. After a failed sync, the changes stay for the next. */
  follow({ change, applied }: Pick<SyncOutcome, "change" | "applied">): void {
    if (applied === undefined) return;
    const { cache, clock } = this.options;
    const [at, written] = [new Date(clock.now()).toISOString(), clock.monotonic()];
    // The first sync writes the state at the start, not changes.
    const added = [...this.#isStarted ? change.services : []].slice(-MOST)
      .flatMap(([service, each]) => {
        const what = describeChange(each, () => cache.slicesOf(service));
        const began = this.#taken.get(service);
        const milliseconds = began === undefined ? null : Math.round(written - began);
        return what === "" ? [] : [{ at, service, what, milliseconds }];
      });
    this.#isStarted = true;
    this.#taken = new Map();
    if (added.length === 0) return;
    const counts = new Map<string, number>();
    this.#entries = [...added.reverse(), ...this.#entries].filter(({ service }) => {
      const known = counts.get(service) ?? 0;
      counts.set(service, known + 1);
      return known < MOST_OF_A_SERVICE;
    }).slice(0, MOST);
  }
}

function serviceIn(
  change: ObjectChange,
  { slices }: Pick<ObjectCache, "slices">,
): string | undefined {
  if (change.kind === "Service") return change.key;
  if (change.kind !== "EndpointSlice") return undefined;
  const slice = change.type === "upsert" ? change.object : slices.get(change.key);
  return slice && serviceOfSlice(slice);
}

/** Describes a change: `endpoint 10.244.0.11:8080 added`; `""` if it does not affect packets. */
function describeChange(
  { before, after }: ServiceChange,
  slicesOf: () => readonly EndpointSlice[],
): string {
  if (before === after) return "";
  if (before.length === 0) return "Service added";
  if (after.length === 0) return "Service removed";
  if (before.length !== after.length) return "Service changed";
  const [old, now] = [moved(before, after), moved(after, before)];
  const isGone = [...old.keys()].some((key) => !now.has(key));
  const endpoints = isGone ? slicesOf().flatMap((slice) => slice.endpoints) : [];
  const states = new Map(endpoints.map(({ address, terminating, ready }) => [
    address,
    terminating ? "terminating" : ready ? "not used" : "not ready",
  ]));
  const changed = [...now, ...old].filter(([key]) => old.has(key) !== now.has(key));
  const byState = Map.groupBy(
    changed,
    ([key, address]) => now.has(key) ? "added" : states.get(address) ?? "gone",
  );
  const parts = [...byState].map(([state, each]) =>
    `${each.length === 1 ? "endpoint" : "endpoints"} ${
      shortList(each.map(([key]) => key))
    } ${state}`
  );
  return parts.join(", ") || "Service changed";
}

/** Returns the endpoints in other slots than before, `address:port` to address: keys take longer than comparisons. */
function moved(
  ports: readonly DesiredServicePort[],
  others: readonly DesiredServicePort[],
): ReadonlyMap<string, string> {
  const found = ports.flatMap((port, index) => {
    const slots = slotsOf(others[index]);
    return slotsOf(port).filter(({ address, port }, slot) =>
      address !== slots[slot]?.address || port !== slots[slot].port
    );
  });
  return new Map(found.map((each) => [keyOf(each), each.address]));
}

function slotsOf(port: DesiredServicePort | undefined): readonly Destination[] {
  const { clusterEndpoints = [], localEndpoints = [] } = port ?? {};
  return clusterEndpoints.length > 0 ? clusterEndpoints : localEndpoints;
}

interface Written extends WrittenBy {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Keeps the sync that wrote a Service's rules. A Service that did not change since the first sync needs no entry. */
export class ServiceSyncs {
  #first: Written | undefined;
  #syncs = 0;
  readonly #changed = new Map<string, Written>();
  /** Services whose change the kernel refused, until a sync succeeds. */
  readonly #failed = new Set<string>();

  constructor(
    private readonly options: {
      readonly desired: Pick<Desired, "services">;
      readonly clock: Pick<Clock, "now">;
    },
  ) {}

  follow({ change, applied: kind }: Pick<SyncOutcome, "change" | "applied">): void {
    if (kind === undefined) {
      for (const key of change.services.keys()) this.#failed.add(key);
      return;
    }
    const written = { number: ++this.#syncs, kind, at: this.options.clock.now() };
    for (const [key, { before, after }] of this.#first ? change.services : []) {
      if (before !== after) this.#note(key, written);
    }
    this.#first ??= written;
    for (const key of this.#failed) this.#note(key, written);
    this.#failed.clear();
  }

  /** Returns the sync that wrote the rules of a Service; `undefined` without rules. */
  lastSync(service: string): Written | undefined {
    const hasRules = (this.options.desired.services.get(service) ?? []).length > 0;
    return hasRules ? this.#changed.get(service) ?? this.#first : undefined;
  }

  hasFailed(service: string): boolean {
    return this.#failed.has(service);
  }

  #note(key: string, written: Written): void {
    if (this.options.desired.services.has(key)) this.#changed.set(key, written);
    else this.#changed.delete(key);
  }
}

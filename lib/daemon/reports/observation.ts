/** Reports the work of the sync loop and the watches to metrics, health and Events. */
import type { ObjectCache } from "../../cache/cache.ts";
import { CATALOG, type FindingKind } from "../../findings/catalog.ts";
import type { ApiFailure, SettingFailure } from "../../findings/facts.ts";
import { describeConflicts } from "../../policy/service_claims.ts";
import type { ApplyError, Script } from "../../model/kernel/dataplane.ts";
import { describeUnsupported, type Unsupported, worksWithout } from "../../model/kernel/traits.ts";
import { splitKey } from "../../model/cluster/names.ts";
import type { Kind, ObjectEvent, Refusal } from "../../model/cluster/objects.ts";
import type { Conflict, Finding, SyncSummary } from "../../model/status.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { EventReport } from "../../observe/events.ts";
import { redactSecrets } from "../../observe/log.ts";
import type { Metrics, Observed } from "../../observe/metrics/metrics.ts";
import type { SyncObserver } from "../../sync/reports.ts";
import type { History } from "./history.ts";
import type { WatchStatus } from "../../source/api/reflector.ts";

interface ObservationSources {
  readonly nodeName: string;
  readonly clock: Pick<Clock, "now">;
  /** False for manifests. */
  readonly needsNode: boolean;
  readonly cache: ObjectCache;
  readonly metrics: Metrics;
  readonly report: (event: EventReport) => void;
  readonly history: Pick<History, "seen" | "started">;
  /** Called after a watch has changed its state. */
  readonly watchesChanged: () => void;
}

/** Milliseconds after which a failing watch is a finding. */
const LONG_FAILURE = 60_000;

/** The most changes whose latency one sync measures. While syncs fail, many more may arrive. */
const MAX_TRIGGERS = 10_000;

/** Counts the changes of a kind. `taken` are the pending changes of the running sync. */
function noChanges() {
  return { total: 0, pending: 0, taken: 0 };
}

export class Observation implements SyncObserver, Observed {
  /** The time of the start, milliseconds since the epoch. */
  readonly since: number;
  readonly watches = new Map<Kind, WatchStatus>();
  readonly changes = { EndpointSlice: noChanges(), Service: noChanges() };
  driftRepairs = 0;
  /** The API server's version, such as `1.33.4`; `undefined` if it is not known. */
  serverVersion: string | undefined;
  /** True if load balancers may send traffic here: the Node was seen, and is not being deleted. */
  isEligible = false;
  settingFailures: readonly SettingFailure[] = [];
  /** The health and the metrics server by name, while they cannot listen. */
  readonly serverFailures = new Map<string, Finding>();
  readonly #syncs = new Map<Script["kind"], SyncSummary>();
  /** Change trigger times of slices that wait for a sync, milliseconds since the epoch. */
  readonly #triggers: number[] = [];
  /** The number of these triggers in the running sync. */
  #taken = 0;

  constructor(private readonly sources: ObservationSources) {
    this.since = sources.clock.now();
  }

  /** Returns the last full and the last partial sync, the older one first. */
  get syncs(): readonly SyncSummary[] {
    return [...this.#syncs.values()];
  }

  drifted(): void {
    this.driftRepairs += 1;
  }

  seen(event: ObjectEvent): void {
    this.#followNode(event);
    this.sources.history.seen(event);
    if (event.kind !== "EndpointSlice" && event.kind !== "Service") return;
    const counts = this.changes[event.kind];
    const seen = event.type === "replace"
      ? [...event.changes.values()].filter(({ type }) => type === "upsert").length
      : 1;
    counts.total += seen;
    counts.pending += seen;
    if (event.kind !== "EndpointSlice" || event.type !== "upsert") return;
    // As in kube-proxy, changes before the start do not count: they do not measure this process.
    const { lastChangeTriggerTime } = event.object;
    if (lastChangeTriggerTime <= this.since || this.#triggers.length >= MAX_TRIGGERS) return;
    this.#triggers.push(lastChangeTriggerTime);
  }

  started(): void {
    this.#taken = this.#triggers.length;
    this.sources.history.started();
    for (const counts of Object.values(this.changes)) counts.taken = counts.pending;
  }

  synced(script: Script, seconds: number): void {
    const { metrics, clock } = this.sources;
    const { kind, operations, bytes } = script;
    const now = clock.now();
    this.#syncs.delete(kind);
    // Microseconds are exact enough.
    const rounded = Math.round(seconds * 1e6) / 1e6;
    const at = new Date(now).toISOString();
    this.#syncs.set(kind, { kind, at, seconds: rounded, operations, bytes });
    metrics.synced(script, seconds);
    for (const time of this.#triggers.splice(0, this.#taken)) {
      metrics.networkProgrammed(Math.max(0, now - time) / 1000);
    }
    this.#taken = 0;
    for (const counts of Object.values(this.changes)) {
      counts.pending -= counts.taken;
      counts.taken = 0;
    }
  }

  failed(kind: Script["kind"], error: ApplyError): void {
    this.sources.metrics.syncFailed(kind);
    // Another program has changed the rules. The full sync that follows at once repairs them.
    if (kind === "partial" && error.failure === "conflict") this.drifted();
  }

  refused({ kind, key, reason: why, isExcess }: Refusal, what: "object" | "part"): void {
    const { metrics, nodeName, watchesChanged } = this.sources;
    if (what === "object") metrics.refusals.inc({ kind });
    if (isExcess) watchesChanged();
    if (kind !== "Service") return;
    const [reason, does] = what === "object"
      ? ["Refused", "cannot use this Service and keeps its last good state"]
      : ["Omitted", "leaves out unusable parts of this Service"];
    this.#warn(key, { reason, action: "Decode", note: `node ${nodeName} ${does}: ${why}` });
  }

  readonly watchChanged = (status: WatchStatus): void => {
    const { state } = this.watches.get(status.kind) ?? {};
    this.watches.set(status.kind, status);
    if (state !== status.state) this.sources.watchesChanged();
  };

  /** Returns the failures of watches that last for a minute, and of optional kinds that signpost may not read. */
  get watchFailures(): ApiFailure[] {
    const before = this.sources.clock.now() - LONG_FAILURE;
    return [...this.watches.values()].filter(({ state, failingSince, isRefused }) =>
      state === "absent"
        ? isRefused
        : state !== "watching" && failingSince > 0 && failingSince <= before
    ).map(({ kind, state, lastError, isRefused }) => ({
      kind,
      message: redactSecrets(lastError),
      isRefusal: isRefused,
      isOptional: state === "absent",
    }));
  }

  /** Sends an Event for each Service that a new finding concerns. Not every kind of finding has Events. */
  found({ id, what, services }: Finding): void {
    const kinds: Readonly<Record<string, FindingKind>> = CATALOG;
    const reason = kinds[id]?.event;
    if (reason === undefined) return;
    const note = `node ${this.sources.nodeName}: ${what}`;
    for (const key of services) this.#warn(key, { reason, action: "Listen", note });
  }

  conflicts(service: string, conflicts: readonly Conflict[]): void {
    const note = `this Service does not get all its addresses: ${describeConflicts(conflicts)}`;
    this.#warn(service, { reason: "Conflict", action: "Claim", note });
  }

  unsupported(refusal: Unsupported): void {
    const consequence = worksWithout(refusal.feature)
      ? "does not serve this Service as it asks"
      : "refuses this Service";
    const note = `node ${this.sources.nodeName} ${consequence}: ${describeUnsupported(refusal)}`;
    this.#warn(refusal.service, { reason: "NotSupported", action: "Apply", note });
  }

  /** Follows the Node at once: load balancers must see a drain even if nft fails. A deleted Node keeps its state. */
  #followNode(event: ObjectEvent): void {
    if (event.kind !== "Node") return;
    const { cache, needsNode } = this.sources;
    const changes = event.type === "replace" ? [...event.changes.values()] : [event];
    for (const change of changes) {
      if (change.type === "upsert") this.isEligible = !change.object.deleting;
    }
    const isNone = event.type === "replace" && changes.every(({ type }) => type === "delete");
    if (isNone && cache.node === undefined && !needsNode) this.isEligible = true;
  }

  #warn(key: string, event: Pick<EventReport, "reason" | "action" | "note">): void {
    const { cache, report } = this.sources;
    const { namespace, name } = splitKey(key);
    const uid = cache.services.get(key)?.uid ?? "";
    report({ regarding: { kind: "Service", namespace, name, uid }, type: "Warning", ...event });
  }
}

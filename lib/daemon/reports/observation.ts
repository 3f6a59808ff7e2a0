/**
 * What the sync loop and the watches do, told to metrics, health, Events and whoever asks.
 *
 * @module
 */
import type { ObjectCache } from "../../cache/cache.ts";
import { CATALOG, type FindingKind } from "../../findings/catalog.ts";
import { describeConflicts } from "../../policy/claimed.ts";
import type { Conflict } from "../../policy/claims.ts";
import type { Desired, Step } from "../../policy/state.ts";
import { FAMILIES } from "../../model/values/address.ts";
import type { ApplyError, Script } from "../../model/kernel/dataplane.ts";
import { describeUnsupported, type Unsupported, worksWithout } from "../../model/kernel/traits.ts";
import type { Kind, ObjectEvent, Omission, Refusal } from "../../model/cluster/objects.ts";
import type { Finding } from "../../model/status.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { EventReport } from "../../observe/events.ts";
import type { ProxyHealth } from "../../observe/health.ts";
import type { Metrics } from "../../observe/metrics/metrics.ts";
import type { ServiceStatuses } from "./service_status.ts";
import type { SyncObserver, SyncWritten } from "../../sync/reports.ts";
import type {
  RequestResult,
  ResponseRead,
  WatchObserver,
  WatchStatus,
} from "../../source/api/report.ts";

/** What is told to. */
export interface ObservationOptions {
  readonly cache: ObjectCache;
  readonly nodeName: string;
  readonly metrics: Metrics;
  readonly services: Pick<ServiceStatuses, "stepped">;
  readonly health: ProxyHealth;
  readonly clock: Clock;
  /** Knows what Services do not get, as of the last step. */
  readonly desired: Pick<Desired, "noLocal" | "conflictCount" | "overLimit">;
  /** What counts as the Node where the source has none; manifests may do without. */
  readonly standInNode: { readonly deleting: boolean } | undefined;
  /** Sends an Event. */
  readonly report: (event: EventReport) => void;
}

/** The last sync, for people. */
export interface LastSync {
  readonly kind: Script["kind"];
  /** Wall-clock time of its end, milliseconds since the epoch. */
  readonly at: number;
  readonly seconds: number;
  readonly operations: number;
  readonly bytes: number;
}

/** Changes whose latency is measured with one sync: while syncs fail, many more may come in. */
const MAX_TRIGGERS = 10_000;

/** Listens to the loop and the watches. */
export class Observation implements SyncObserver, WatchObserver {
  readonly #options: ObservationOptions;
  readonly #started: number;
  readonly #watches = new Map<Kind, WatchStatus>();
  readonly #lastSyncs = new Map<Script["kind"], LastSync>();
  /** Change trigger times of slices that wait for a sync, milliseconds since the epoch. */
  readonly #triggers: number[] = [];
  #pending = { endpoints: 0, services: 0 };
  /** How many of those triggers are in the sync at hand, and the changes that wait for another one. */
  #taken = 0;
  #later = { endpoints: 0, services: 0 };
  #driftRepairs = 0;

  /** @param options what is told to */
  constructor(options: ObservationOptions) {
    this.#options = options;
    this.#started = options.clock.now();
  }

  /** The state of each watch. */
  get watches(): ReadonlyMap<Kind, WatchStatus> {
    return this.#watches;
  }

  /** The last full and the last partial sync. */
  get lastSyncs(): ReadonlyMap<Script["kind"], LastSync> {
    return this.#lastSyncs;
  }

  /** How often another program's changes of our rules were undone. */
  get driftRepairs(): number {
    return this.#driftRepairs;
  }

  /** Another program has changed our rules, and they are about to be written again. */
  drifted(): void {
    this.#driftRepairs += 1;
    this.#options.metrics.driftRepaired();
  }

  /** An event of a source has come in. */
  eventSeen(event: ObjectEvent): void {
    this.#followNode(event);
    const { metrics } = this.#options;
    const changes = event.type === "replace" ? event.objects.size : 1;
    const seen = {
      endpoints: event.kind === "EndpointSlice" ? changes : 0,
      services: event.kind === "Service" ? changes : 0,
    };
    metrics.changesSeen(seen);
    for (const changes of [this.#pending, this.#later]) {
      changes.endpoints += seen.endpoints;
      changes.services += seen.services;
    }
    metrics.changesPending(this.#pending);
    if (event.kind !== "EndpointSlice" || event.type !== "upsert") return;
    // Changes from before the start say nothing about this process (as in kube-proxy).
    const { lastChangeTriggerTime } = event.object;
    if (lastChangeTriggerTime <= this.#started || this.#triggers.length >= MAX_TRIGGERS) return;
    this.#triggers.push(lastChangeTriggerTime);
  }

  /** @inheritdoc */
  queued(): void {
    this.#options.health.queued();
    this.#options.metrics.syncQueued();
  }

  /** @inheritdoc */
  started(): void {
    this.#taken = this.#triggers.length;
    this.#later = { endpoints: 0, services: 0 };
  }

  /** @inheritdoc */
  stepped({ change }: Step): void {
    this.#options.services.stepped(change);
  }

  /** @inheritdoc */
  synced({ script, seconds }: SyncWritten): void {
    const { metrics, health, clock } = this.#options;
    const { kind, operations, bytes } = script;
    this.#lastSyncs.set(kind, { kind, at: clock.now(), seconds, operations, bytes });
    health.updated();
    metrics.synced(script, seconds);
    for (const time of this.#triggers.splice(0, this.#taken)) {
      metrics.networkProgrammed(Math.max(0, clock.now() - time) / 1000);
    }
    this.#taken = 0;
    this.#pending = { ...this.#later };
    metrics.changesPending(this.#pending);
    this.#countServices();
  }

  /** @inheritdoc */
  moved(): void {
    this.#options.health.moved();
  }

  /** @inheritdoc */
  failed({ kind, error }: { readonly kind: Script["kind"]; readonly error: ApplyError }): void {
    this.#options.metrics.syncFailed(kind);
    this.#options.health.failed();
    // Another program has changed the rules, and the full sync that follows at once is the repair.
    if (kind === "partial" && error.failure === "conflict") this.drifted();
  }

  /** @inheritdoc */
  refused({ kind, key, reason }: Refusal): void {
    const { metrics, report } = this.#options;
    metrics.objectRefused(kind);
    metrics.objectsRefusedNow(kind, this.#countRefused(kind));
    if (kind !== "Service") return;
    report({
      ...this.#about(key),
      reason: "Refused",
      action: "Decode",
      note:
        `node ${this.#options.nodeName} refuses this Service and keeps its last good state: ${reason}`,
    });
  }

  /** @inheritdoc */
  omitted({ kind, key, reason }: Omission): void {
    if (kind !== "Service") return;
    this.#options.report({
      ...this.#about(key),
      reason: "Omitted",
      action: "Decode",
      note:
        `node ${this.#options.nodeName} leaves out what it cannot use of this Service: ${reason}`,
    });
  }

  /** Sends an Event for each Service that a new finding concerns, if findings of its kind have one. */
  found({ id, what, services }: Finding): void {
    const kinds: Readonly<Record<string, FindingKind>> = CATALOG;
    const reason = kinds[id]?.event;
    if (reason === undefined) return;
    for (const key of services) {
      this.#options.report({
        ...this.#about(key),
        reason,
        action: "Listen",
        note: `node ${this.#options.nodeName}: ${what}`,
      });
    }
  }

  /** @inheritdoc */
  conflicts(service: string, conflicts: readonly Conflict[]): void {
    this.#options.report({
      ...this.#about(service),
      reason: "Conflict",
      action: "Claim",
      note: `this Service does not get all that it asks for: ${describeConflicts(conflicts)}`,
    });
  }

  /** @inheritdoc */
  unsupported(refusal: Unsupported): void {
    this.#options.report({
      ...this.#about(refusal.service),
      reason: "NotSupported",
      action: "Apply",
      note: `node ${this.#options.nodeName} ${
        worksWithout(refusal.feature)
          ? "does not serve this Service as it asks"
          : "refuses this Service"
      }: ${describeUnsupported(refusal)}`,
    });
  }

  /** @inheritdoc */
  watchChanged(status: WatchStatus): void {
    const { metrics } = this.#options;
    const before = this.#watches.get(status.kind);
    this.#watches.set(status.kind, status);
    metrics.watch(status.kind, status.state === "watching");
    if (status.lastEvent !== before?.lastEvent) metrics.watchActive(status.kind);
    if (before && status.lists > Math.max(1, before.lists)) metrics.relisted(status.kind);
  }

  /** @inheritdoc */
  requestDone(request: RequestResult): void {
    this.#options.metrics.request(request);
  }

  /** @inheritdoc */
  responseRead(response: ResponseRead): void {
    this.#options.metrics.response(response);
  }

  /**
   * Follows the Node without waiting for a sync: load balancers must see a drain even if nft fails. A
   * Node that goes leaves its last state, as in kube-proxy.
   */
  #followNode(event: ObjectEvent): void {
    if (event.kind !== "Node") return;
    const { health, cache, standInNode } = this.#options;
    const nodes = event.type === "upsert"
      ? [event.object]
      : event.type === "replace"
      ? [...event.objects.values()]
      : [];
    for (const node of nodes) health.setNode(node);
    const isNone = event.type === "replace" && nodes.length === 0 && event.refused.size === 0;
    if (isNone && cache.node === undefined && standInNode) health.setNode(standInNode);
  }

  #about(key: string): Pick<EventReport, "regarding" | "type"> {
    const service = this.#options.cache.services.get(key);
    const [namespace = "default", name = key] = key.split("/");
    return {
      regarding: { kind: "Service", namespace, name, uid: service?.uid ?? "" },
      type: "Warning",
    };
  }

  #countRefused(kind: Kind): number {
    return refusals(this.#options).filter((each) => each.kind === kind).length;
  }

  #countServices(): void {
    const { metrics, desired } = this.#options;
    metrics.objectsRefusedNow("Service", this.#countRefused("Service"));
    metrics.vipConflicts(desired.conflictCount);
    for (const family of FAMILIES) metrics.noLocalEndpoints(family, desired.noLocal[family]);
  }
}

/** All objects whose present state is not taken: none that parses, or one over a limit. */
export function refusals(
  { cache, desired }: Pick<ObservationOptions, "cache" | "desired">,
): Refusal[] {
  return [...cache.refused, ...desired.overLimit()];
}

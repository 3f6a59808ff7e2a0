/**
 * Gathers what the daemon tells of itself.
 *
 * @module
 */
import type { ObjectCache } from "../../cache/cache.ts";
import type { Desired } from "../../policy/state.ts";
import type { RefusedFeatures } from "../../model/kernel/traits.ts";
import {
  type AccelerationSummary,
  type LocalhostSummary,
  type Status,
  STATUS_VERSION,
  type TakeOverReport,
  type TakeOverSummary,
} from "../../model/status.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import { formatMinSyncPeriod } from "../../config/configz.ts";
import type { MinSyncPeriod } from "../../model/configuration.ts";
import { KINDS } from "../../model/cluster/objects.ts";
import type { Progress } from "../../model/kernel/dataplane.ts";
import type { HeldBackPorts } from "../../model/kernel/differences.ts";
import type { ProxyHealth } from "../../observe/health.ts";
import { type Observation, refusals } from "./observation.ts";
import { COMMIT } from "../../model/commit.ts";
import { VERSION } from "../../model/version.ts";

/** Where the parts of the answer come from. */
export interface StatusSources {
  readonly node: string;
  readonly mode: Status["mode"];
  readonly kernel: string;
  readonly nft: string;
  /** Families without rules, with the reason. */
  readonly missing: ReadonlyMap<Family, string>;
  readonly minSyncPeriod: MinSyncPeriod;
  /** Milliseconds from the end of the last sync until the next one may begin. */
  readonly syncPause: number;
  /** Milliseconds since the epoch. */
  readonly started: number;
  readonly cache: ObjectCache;
  readonly desired: Desired;
  readonly observation: Observation;
  readonly health: ProxyHealth;
  readonly findings: Status["findings"];
  readonly interfaceAddresses: readonly string[];
  readonly stale: boolean;
  readonly localhost: LocalhostSummary | undefined;
  /** How far a large table is that is written in portions. */
  readonly progress: Progress | undefined;
  readonly acceleration: AccelerationSummary | undefined;
  /** From kube-proxy's ipvs mode; `undefined`: none is under way. */
  readonly takeOver: TakeOverReport | undefined;
  /** Seconds; `undefined`: there is no state file. */
  readonly snapshotAge: number | undefined;
  readonly refusedFeatures: RefusedFeatures;
}

/** The status at this moment. */
export function statusReport(sources: StatusSources): Status {
  const { cache, desired, observation, health } = sources;
  const { healthy, nodeEligible } = health.report();
  return {
    statusVersion: STATUS_VERSION,
    version: VERSION,
    commit: COMMIT,
    node: sources.node,
    mode: sources.mode,
    kernel: sources.kernel,
    nft: sources.nft,
    missingFamilies: [...sources.missing].map(([family, reason]) => ({
      family: FAMILY_NAMES[family],
      reason,
    })),
    minSyncPeriod: formatMinSyncPeriod(sources.minSyncPeriod),
    syncPauseSeconds: inSeconds(sources.syncPause / 1000),
    started: formatTime(sources.started),
    healthy,
    nodeEligible,
    stale: sources.stale,
    findings: sources.findings,
    ...(sources.progress && { portions: sources.progress }),
    interfaceAddresses: sources.interfaceAddresses,
    services: desired.services.size,
    servicePorts: sum(desired.services.values(), (ports) => ports.length),
    endpointSlices: cache.slices.size,
    endpoints: sum(cache.slices.values(), ({ endpoints }) => endpoints.length),
    driftRepairs: observation.driftRepairs,
    ...sources.localhost && { localhostNodePorts: sources.localhost },
    ...sources.acceleration && { acceleration: sources.acceleration },
    ...sources.takeOver && { takeOver: takeOverSummary(sources.takeOver) },
    snapshotAgeSeconds: sources.snapshotAge ?? null,
    ...sources.refusedFeatures.size > 0 && {
      refusedFeatures: [...sources.refusedFeatures].map(([feature, reason]) => ({
        feature,
        reason,
      })),
    },
    watches: KINDS.flatMap((kind) => observation.watches.get(kind) ?? []).map((watch) => ({
      kind: watch.kind,
      state: watch.state,
      resourceVersion: watch.resourceVersion,
      lastEvent: formatTime(watch.lastEvent),
      lists: watch.lists,
      lastError: watch.lastError,
    })),
    syncs: [...observation.lastSyncs.values()].sort((a, b) => a.at - b.at)
      .map((sync) => ({
        ...sync,
        at: formatTime(sync.at),
        seconds: inSeconds(sync.seconds),
      })),
    refused: refusals(sources).map(({ kind, key, reason }) => ({
      kind,
      key,
      reason,
    })),
    conflicts: shorten(desired.conflicts()),
  };
}

/** Returns the Services whose last good rules are kept, for themselves or an EndpointSlice are refused. */
export function heldBack(
  { cache, desired }: Pick<StatusSources, "cache" | "desired">,
): HeldBackPorts[] {
  const reasons = new Map<string, string>();
  for (const { kind, key, reason } of refusals({ cache, desired })) {
    const slice = kind === "EndpointSlice" ? cache.slices.get(key) : undefined;
    if (kind === "Service") reasons.set(key, reason);
    else if (slice) {
      reasons.set(`${slice.namespace}/${slice.serviceName}`, `${kind} ${key}: ${reason}`);
    }
  }
  return [...reasons].map(([service, reason]) => ({
    service,
    reason,
    ports: desired.services.get(service) ?? [],
  }));
}

function takeOverSummary(report: TakeOverReport): TakeOverSummary {
  const { connections, until, obstacle } = report;
  return { from: "ipvs", connections, until: formatTime(until), obstacle: obstacle ?? "" };
}

/** Conflicts of one Service that are listed. */
const MOST_CONFLICTS = 20;

function shorten(conflicts: Status["conflicts"]): Status["conflicts"] {
  return [...Map.groupBy(conflicts, ({ loser }) => loser)].flatMap(([loser, lost]) => {
    const more = lost.length - MOST_CONFLICTS;
    if (more <= 0) return lost;
    const rest = { claim: `… and ${more} more`, holder: "", loser, because: "" };
    return [...lost.slice(0, MOST_CONFLICTS), rest];
  });
}

/** Without digits that mean nothing. */
function inSeconds(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}

function formatTime(milliseconds: number): string {
  return milliseconds === 0 ? "" : new Date(milliseconds).toISOString();
}

function sum<T>(values: Iterable<T>, size: (value: T) => number): number {
  let total = 0;
  for (const value of values) total += size(value);
  return total;
}

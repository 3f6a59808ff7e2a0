/** Reports the status of the daemon and of each Service. */
import { serviceOfSlice } from "../../cache/cache.ts";
import { formatMinSyncPeriod } from "../../config/configuration.ts";
import { COMMIT } from "../../model/commit.ts";
import { KINDS, type Refusal } from "../../model/cluster/objects.ts";
import { countWithoutEndpoints } from "../../model/kernel/desired.ts";
import type { HeldBackPorts } from "../../model/kernel/differences.ts";
import { describeUnsupported, worksWithout } from "../../model/kernel/traits.ts";
import {
  type Conflict,
  countByKind,
  type ServiceStatus,
  type Status,
  STATUS_VERSION,
} from "../../model/status.ts";
import { FAMILY_NAMES } from "../../model/values/address.ts";
import { countConflicts } from "../../observe/human.ts";
import { VERSION } from "../../model/version.ts";
import type { PortFacts } from "../objects/own_ports.ts";
import type { Parts } from "../parts.ts";

export function statusReport(parts: Parts): Status {
  const { options, opened, cache, desired, loop, observation, health } = parts;
  const { dataplane: { progress }, acceleration, foreignRules, traits } = opened.backend;
  const { healthy, nodeEligible } = health.report();
  const takeOver = foreignRules.ipvs;
  const localhost = options.localhost.summary;
  return {
    statusVersion: STATUS_VERSION,
    version: VERSION,
    commit: COMMIT,
    node: options.nodeName,
    mode: traits.name,
    kernel: options.runtime.osRelease(),
    nft: opened.version,
    missingFamilies: [...opened.missing].map(([family, reason]) => ({
      family: FAMILY_NAMES[family],
      reason,
    })),
    minSyncPeriod: formatMinSyncPeriod(options.configuration[traits.name].minSyncPeriod),
    syncPauseSeconds: Math.round(loop.pause * 1e3) / 1e6,
    started: formatTime(observation.since),
    healthy,
    nodeEligible,
    stale: loop.stale,
    findings: parts.findings.list,
    ...progress && { portions: progress },
    services: desired.services.size,
    servicePorts: desired.services.values().reduce((sum, { length }) => sum + length, 0),
    servicesWithoutEndpoints: countWithoutEndpoints(desired),
    endpointSlices: cache.slices.size,
    endpoints: cache.slices.values().reduce((sum, { endpoints }) => sum + endpoints.length, 0),
    driftRepairs: observation.driftRepairs,
    ...localhost && { localhostNodePorts: localhost },
    ...acceleration && { acceleration },
    ...takeOver && { takeOver },
    snapshotAgeSeconds: parts.keeper?.age() ?? null,
    ...opened.refusedFeatures.size > 0 && {
      refusedFeatures: [...opened.refusedFeatures].map(([feature, reason]) => ({
        feature,
        reason,
      })),
    },
    watches: KINDS.flatMap((kind) => observation.watches.get(kind) ?? [])
      .map(({ isRefused: _, ...watch }) => ({
        ...watch,
        lastEvent: formatTime(watch.lastEvent),
        failingSince: formatTime(watch.failingSince),
      })),
    syncs: observation.syncs,
    ...refusedObjects(parts.refusals()),
    conflicts: shortenConflicts(desired.conflicts()),
  };
}

/** Returns the time of the objects, milliseconds since the epoch. */
export function asOf(parts: Parts): number {
  const { loop, keeper, observation } = parts;
  if (keeper && loop.stale) return keeper.foundTime;
  const now = parts.options.runtime.clock.now();
  return [...observation.watches.values()]
    .filter(({ state }) => state !== "watching" && state !== "absent")
    .reduce((time, { lastEvent }) => Math.min(time, lastEvent || observation.since), now);
}

export function serviceStatus(parts: Parts, service: string): ServiceStatus {
  const written = parts.serviceSyncs.lastSync(service);
  const rejected = rejectionOf(parts, service);
  const pending = pendingReason(parts, service);
  return {
    service,
    state: rejected ? "rejected" : pending ? "pending" : written ? "applied" : "absent",
    since: written ? new Date(written.at).toISOString() : "",
    sync: written ? { number: written.number, kind: written.kind } : null,
    reason: rejected || pending,
  };
}

function rejectionOf({ refusals, desired }: Parts, service: string): string {
  const refused = refusals().find(({ kind, key }) => kind === "Service" && key === service);
  if (refused) return refused.reason;
  const unsupported = desired.unsupported().find((each) =>
    each.service === service && !worksWithout(each.feature)
  );
  return unsupported ? describeUnsupported(unsupported) : "";
}

function pendingReason({ serviceSyncs, loop, cache }: Parts, service: string): string {
  if (serviceSyncs.hasFailed(service)) return "the last sync failed and is tried again";
  if (loop.isWriting(service)) return "a sync writes it now";
  return cache.isWaiting(service) ? "the next sync writes it" : "";
}

/** The inputs of the desired state beside objects and configuration. */
export interface DesiredInputs {
  readonly ownPorts: PortFacts | null;
  readonly heldBack: readonly HeldBackPorts[];
}

export function desiredInputs(parts: Parts): DesiredInputs {
  return { ownPorts: parts.ownPorts.facts, heldBack: heldBack(parts) };
}

/** Returns the Services whose last good rules stay, because the Service or one of its EndpointSlices is refused. */
function heldBack({ cache, desired, refusals }: Parts): HeldBackPorts[] {
  const reasons = new Map<string, string>();
  for (const { kind, key, reason } of refusals()) {
    const slice = kind === "EndpointSlice" ? cache.slices.get(key) : undefined;
    if (kind === "Service") reasons.set(key, reason);
    else if (slice) reasons.set(serviceOfSlice(slice), `${kind} ${key}: ${reason}`);
  }
  return [...reasons].map(([service, reason]) => ({
    service,
    reason,
    ports: desired.services.get(service) ?? [],
  }));
}

/** The most conflicts of one loser that are listed. */
const MOST_CONFLICTS = 20;

/** The most refused objects that are listed, and conflicts of all losers. */
const MOST_LISTED = 1_000;

/** Lists the first conflicts of each loser, and the first of all. */
export function shortenConflicts(conflicts: Status["conflicts"]): Status["conflicts"] {
  const byLoser = [...Map.groupBy(conflicts, ({ loser }) => loser)]
    .flatMap(([loser, lost]) => firstOf(lost, { most: MOST_CONFLICTS, loser }));
  return firstOf(byLoser, { most: MOST_LISTED, loser: "" });
}

/** Lists the first conflicts, and counts the rest in a last entry. */
function firstOf(
  conflicts: readonly Conflict[],
  { most, loser }: { readonly most: number; readonly loser: string },
): readonly Conflict[] {
  const more = countConflicts(conflicts.slice(most));
  if (more === 0) return conflicts;
  const rest = { claim: `… and ${more} more`, holder: "", loser, because: "", more };
  return [...conflicts.slice(0, most), rest];
}

/** Lists the first refused objects, and counts all by kind. */
export function refusedObjects(
  refusals: readonly Refusal[],
): Pick<Status, "refused" | "refusedByKind"> {
  const refused = refusals.slice(0, MOST_LISTED)
    .map(({ kind, key, reason }) => ({ kind, key, reason }));
  const next = refusals[MOST_LISTED];
  const reason = `… and ${refusals.length - MOST_LISTED} more`;
  if (next) refused.push({ kind: next.kind, key: "", reason });
  return { refused, ...refused.length > 0 && { refusedByKind: countByKind(refusals) } };
}

function formatTime(milliseconds: number): string {
  return milliseconds === 0 ? "" : new Date(milliseconds).toISOString();
}

/** Renders a status as texts for `signpost status` and the status page. */
import { claimText } from "../model/cluster/names.ts";
import type {
  AccelerationSummary,
  LocalhostSummary,
  Status,
  TakeOverSummary,
} from "../model/status.ts";
import { count } from "../model/values/text.ts";
import { formatAge, formatAgo, formatDuration, formatSize, programOf } from "./human.ts";
import { redactSecrets } from "./log.ts";

export interface TextRows {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface StatusView {
  /** The version, with the commit if it is known. */
  readonly version: string;
  readonly facts: readonly (readonly [name: string, text: string])[];
  readonly watches: TextRows;
  readonly syncs: TextRows;
  readonly refused: TextRows;
  readonly conflicts: TextRows;
}

/** Renders a status as texts. @param now milliseconds since the epoch */
export function statusView(status: Status, now: number): StatusView {
  return {
    version: status.commit === "" ? status.version : `${status.version} (${status.commit})`,
    facts: factsOf(status, now),
    watches: {
      head: ["Watch", "State", "Version", "Last event", "Lists", "Last error"],
      rows: status.watches.map((watch) => [
        watch.kind,
        watch.state,
        watch.resourceVersion,
        formatAgo(watch.lastEvent, now),
        `${watch.lists}`,
        redactSecrets(watch.lastError),
      ]),
    },
    syncs: {
      head: ["Sync", "When", "Took", "Operations", "Size"],
      rows: status.syncs.map((sync) => [
        sync.kind,
        formatAgo(sync.at, now),
        formatDuration(sync.seconds),
        `${sync.operations}`,
        formatSize(sync.bytes),
      ]),
    },
    refused: {
      head: ["Refused", "Object", "Why"],
      rows: status.refused.map(({ kind, key, reason }) => [kind, key, reason]),
    },
    conflicts: {
      head: ["Conflict", "Held by", "Wanted by", "Why"],
      rows: status.conflicts.map((
        each,
      ) => [claimText(each.claim), each.holder, each.loser, each.because]),
    },
  };
}

function factsOf(status: Status, now: number): StatusView["facts"] {
  const program = status.nft === "" ? status.mode : `${status.mode} (${programOf(status)})`;
  const { localhostNodePorts, acceleration, takeOver, snapshotAgeSeconds: age } = status;
  const minSyncPeriod = status.minSyncPeriod === "adaptive"
    ? `adaptive, now ${formatDuration(status.syncPauseSeconds)}`
    : status.minSyncPeriod;
  return [
    ["mode", `${program}, kernel ${status.kernel}`],
    ...status.missingFamilies.map(({ family, reason }) => [family, `no rules: ${reason}`] as const),
    ...minSyncPeriod === "" ? [] : [["min sync period", minSyncPeriod] as const],
    ["started", formatAgo(status.started, now)],
    ["services", `${status.services} with ${count(status.servicePorts, "port")}`],
    ["endpoints", `${status.endpoints} in ${count(status.endpointSlices, "slice")}`],
    ["drift repairs", `${status.driftRepairs}`],
    ...localhostNodePorts ? [["on loopback", formatLocalhost(localhostNodePorts)] as const] : [],
    ...acceleration ? [["fast path", formatAcceleration(acceleration)] as const] : [],
    ...takeOver ? [["take-over", formatTakeOver(takeOver)] as const] : [],
    ["state file", age === null ? "none" : `${formatAge(age)} old`],
  ];
}

function formatLocalhost({ listeners, connections, refused }: LocalhostSummary): string {
  const closed = refused > 0 ? `, ${refused} closed because too many were open` : "";
  return `${count(listeners, "listener")}, ${count(connections, "connection")}${closed}`;
}

/** Describes the fast path: `12 connections after 20 packets, 3 interfaces`. */
function formatAcceleration({ packets, interfaces, connections }: AccelerationSummary): string {
  const now = connections === null ? "connections" : count(connections, "connection");
  return `${now} after ${count(packets, "packet")}, ${count(interfaces.length, "interface")}`;
}

/** Describes a take-over: `from ipvs: waiting for 3 connections, until 04:55 UTC`. */
function formatTakeOver({ from, connections, until, obstacle }: TakeOverSummary): string {
  if (obstacle !== "") return `from ${from}: ${obstacle}`;
  const time = until.slice(11, 16);
  return `from ${from}: waiting for ${count(connections, "connection")}, until ${time} UTC`;
}

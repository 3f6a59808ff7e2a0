/** Gives the status page contents in tests. */
import { CONNECTIONS_VERSION, type ConnectionsReport } from "../../../lib/model/connections.ts";
import type { DesiredServicePort, Destination } from "../../../lib/model/kernel/desired.ts";
import { type Finding, type Status, STATUS_VERSION } from "../../../lib/model/status.ts";
import type { Configuration } from "../../../lib/config/configuration.ts";
import type { HttpHandler } from "../../../lib/model/ports/http.ts";
import { pageHandler } from "../../../lib/observe/endpoints.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { configuration, DEFAULTS } from "../../support/configuration.ts";
import type { PageContents } from "../../../lib/observe/page/data.ts";
import { connectionsTo, servicePort as buildPort } from "../../support/cluster.ts";

export const NOW = Date.parse("2026-01-02T03:04:05.000Z");

/** Something that is wrong on the node. */
export const FINDING = {
  id: "node-address-elsewhere",
  severity: "warning",
  what: "Node node-1 has 192.168.77.3; no interface here has it",
  where: "Node node-1",
  remedy: "Set --hostname-override.",
  services: [],
} as const satisfies Finding;

/** A status in which all is well. */
export const STATUS: Status = {
  statusVersion: STATUS_VERSION,
  version: "0.1.0",
  commit: "abc1234",
  node: "node-1",
  mode: "nftables",
  kernel: "6.18.0",
  nft: "1.0.6",
  missingFamilies: [],
  minSyncPeriod: "adaptive",
  syncPauseSeconds: 0.012,
  started: "2026-01-02T00:04:05.000Z",
  healthy: true,
  nodeEligible: true,
  stale: false,
  findings: [],
  services: 2,
  servicePorts: 3,
  servicesWithoutEndpoints: 0,
  endpointSlices: 4,
  endpoints: 5,
  driftRepairs: 0,
  snapshotAgeSeconds: 12,
  watches: [{
    kind: "Service",
    state: "watching",
    resourceVersion: "4711",
    lastEvent: "2026-01-02T03:04:01.000Z",
    lists: 1,
    lastError: "",
    failingSince: "",
  }],
  syncs: [
    { kind: "full", at: "2026-01-02T02:04:05.000Z", seconds: 1.25, operations: 900, bytes: 51200 },
    { kind: "partial", at: "2026-01-02T03:04:02.000Z", seconds: 0.012, operations: 4, bytes: 310 },
  ],
  refused: [],
  conflicts: [],
};

/** Connections of a Service, and of another one that has fewer. */
export const CONNECTIONS: ConnectionsReport = {
  connectionsVersion: CONNECTIONS_VERSION,
  node: "node-1",
  off: "",
  at: "2026-01-02T03:04:04.000Z",
  overSeconds: 2,
  everySeconds: 1,
  total: { connections: 185_181, perSecond: 317 },
  services: [
    connectionsTo({ connections: 184_203, perSecond: 312.5 }),
    connectionsTo({ frontend: "nodePort", connections: 977, perSecond: 4.5 }),
    connectionsTo({ namespace: "kube-system", service: "dns", port: 53, protocol: "udp" }),
  ],
  totalRejected: { connections: 0, perSecond: 0 },
  rejected: [],
};

/** An endpoint on another node, or on this one. */
export function endpoint(address: string, local = false): Destination {
  return { address, port: 8080, local, hairpin: local };
}

/** A service port with a cluster IP and two endpoints. */
export function servicePort(changes: Partial<DesiredServicePort> = {}): DesiredServicePort {
  return buildPort({
    clusterEndpoints: [endpoint("10.244.0.7", true), endpoint("10.244.1.9")],
    ...changes,
  });
}

export function contents(changes: Partial<PageContents> = {}): PageContents {
  return {
    status: STATUS,
    services: new Map([["shop/web", [servicePort()]]]),
    connections: [],
    historyOf: () => [],
    now: NOW,
    ...changes,
  };
}

export function pageOf(
  { statusPage = "auto", bindAddress = "127.0.0.1:10249", page = contents }: {
    readonly statusPage?: Configuration["signpost"]["statusPage"];
    readonly bindAddress?: string;
    readonly page?: () => PageContents;
  },
): HttpHandler {
  return pageHandler({
    configuration: configuration({
      metricsBindAddress: bindAddress,
      signpost: { ...DEFAULTS.signpost, statusPage },
    }),
    page: () => page(),
    // A browser's own time runs faster than the second for which an answer is shared.
    clock: { ...realClock, sleep: () => realClock.sleep(0) },
  });
}

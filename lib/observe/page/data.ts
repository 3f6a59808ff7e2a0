/** Makes the JSON of the status page: problems by kind with their numbers, and the Services that match a query. */
import { hostPort, objectKey } from "../../model/cluster/names.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import {
  type DesiredServicePort,
  type DesiredState,
  endpointsFor,
  type FrontendType,
  noEndpointsReason,
  usedEndpoints,
} from "../../model/kernel/desired.ts";
import type { HistoryEntry, Severity, Status } from "../../model/status.ts";
import { TopK } from "../../model/values/bounded.ts";
import { count, grouped } from "../../model/values/text.ts";
import { frontendsOf, policyOf } from "../../policy/frontend.ts";
import {
  changeText,
  countConflicts,
  countRefused,
  formatAge,
  formatRate,
  healthOf,
} from "../human.ts";
import { type StatusView, statusView, type TextRows } from "../status_view.ts";

export interface PageContents {
  readonly status: Status;
  readonly services: DesiredState["services"];
  /** Empty if connections are not counted. */
  readonly connections: Iterable<ServiceConnections>;
  /** Returns the changes of a Service, the newest first. */
  readonly historyOf: (service: string) => readonly HistoryEntry[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

interface Problems extends TextRows {
  /** The number of problems: `2 refused objects`. */
  readonly title: string;
  readonly colour: "red" | "yellow";
}

/** The JSON that `page.html` shows. */
export interface PageData extends Pick<StatusView, "version" | "facts" | "watches" | "syncs"> {
  readonly node: string;
  readonly time: string;
  readonly health: ReturnType<typeof healthOf>;
  /** Only kinds that have problems. */
  readonly problems: readonly Problems[];
  /** Says if the node has no problems, and counts Services without endpoints. */
  readonly summary: string;
  readonly notes: TextRows;
  readonly found: FoundServices;
}

/** The most rows of one table. `signpost status` prints all rows. */
const MOST_ROWS = 100;

/** Makes the page's JSON. @yields when other work can run */
export function* pageData(
  { status, services, connections, historyOf, now }: PageContents,
  query: ServiceQuery,
): Generator<undefined, PageData> {
  const view = statusView(status, now);
  const problems = problemsOf(status, view);
  const { servicesWithoutEndpoints: without } = status;
  const { version, facts, watches, syncs } = view;
  return {
    node: status.node,
    version,
    time: new Date(now).toISOString(),
    health: healthOf(status, now),
    problems,
    summary: [
      ...problems.length === 0 ? ["No node problems."] : [],
      ...without > 0 ? [`${count(without, "Service")} without endpoints.`] : [],
    ].join(" "),
    notes: findingsOf(status, "info"),
    facts,
    syncs,
    watches,
    found: yield* findServices(services, { query, connections, historyOf }),
  };
}

function problemsOf(status: Status, { watches, refused, conflicts }: StatusView): Problems[] {
  const errors = findingsOf(status, "error");
  const warnings = findingsOf(status, "warning");
  const isFailing = ({ state, lastError }: Status["watches"][number]) =>
    lastError !== "" && state !== "absent";
  const failing = watches.rows.filter((_, i) => status.watches.slice(i, i + 1).some(isFailing));
  const kinds: Problems[] = [
    { ...errors, title: count(errors.rows.length, "error"), colour: "red" },
    {
      ...watches,
      rows: failing,
      title: failing.length === 1 ? "1 watch fails" : `${failing.length} watches fail`,
      colour: "red",
    },
    { ...warnings, title: count(warnings.rows.length, "warning"), colour: "yellow" },
    { ...refused, title: count(countRefused(status), "refused object"), colour: "yellow" },
    { ...conflicts, title: count(countConflicts(status.conflicts), "conflict"), colour: "yellow" },
  ];
  return kinds.filter(({ rows }) => rows.length > 0).map(({ rows, title, ...rest }) => ({
    ...rest,
    title: rows.length > MOST_ROWS ? `${title}, the first ${MOST_ROWS}` : title,
    rows: rows.slice(0, MOST_ROWS),
  }));
}

function findingsOf({ findings }: Status, severity: Severity): TextRows {
  return {
    head: ["What", "Where", "What to do"],
    rows: findings.filter((each) => each.severity === severity)
      .map(({ id, what, where, remedy }) => [`${what} [${id}]`, where, remedy]),
  };
}

interface ServiceQuery {
  /** A Service matches if it has each of these words somewhere; `""` matches every Service. */
  readonly words: string;
  readonly sort: "name" | "connections";
}

/** The frontends of a service port that follow one traffic policy, and their endpoints. */
interface PolicyRoute {
  readonly port: string;
  readonly policy: TrafficPolicy;
  readonly frontends: readonly string[];
  readonly endpoints: readonly { readonly text: string; readonly isLocal: boolean }[];
  readonly endpointCount: number;
  /** `""` if packets go to an endpoint. */
  readonly refusal: "" | "rejected" | "dropped";
}

interface ServiceView {
  readonly name: string;
  readonly badges: readonly string[];
  /** `""` if connections are not counted, or if none was made. */
  readonly connections: string;
  readonly routes: readonly PolicyRoute[];
  /** The last changes, one line each, the newest first. */
  readonly changes: readonly string[];
}

export interface FoundServices {
  readonly matches: number;
  readonly services: readonly ServiceView[];
}

/** Limits of one answer. At all limits it has 1 MB. `signpost explain` lists everything. */
const MOST_SERVICES = 30;
const MOST_PORTS = 10;
const MOST_FRONTENDS = 20;
const MOST_ENDPOINTS = 50;
const MOST_CHANGES = 5;
const LONGEST_QUERY = 200;

/** Reads the query of a URL; an unknown order is the order by name. */
export function readQuery(search: string): ServiceQuery {
  const parameters = new URLSearchParams(search);
  return {
    words: (parameters.get("q") ?? "").slice(0, LONGEST_QUERY),
    sort: parameters.get("sort") === "connections" ? "connections" : "name",
  };
}

type ServiceLoad = Pick<ServiceConnections, "connections" | "perSecond"> & {
  /** Connections a second that the rules reject or drop. */
  readonly rejected: number;
};

const NO_LOAD: ServiceLoad = { connections: 0, perSecond: 0, rejected: 0 };

/** Finds Services by parts of names, addresses, ports and endpoints, in any case. @yields when other work can run */
export function* findServices(
  services: DesiredState["services"],
  options: {
    readonly query: ServiceQuery;
  } & Pick<PageContents, "connections" | "historyOf">,
): Generator<undefined, FoundServices> {
  const { query, connections, historyOf } = options;
  const loads = yield* loadsOf(connections);
  const words = query.words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const first = new TopK<readonly [string, readonly DesiredServicePort[]]>(
    MOST_SERVICES,
    ([a], [b]) => {
      const byLoad = query.sort === "name" ? 0 : busiestFirst(loads.get(a), loads.get(b));
      return byLoad || (a < b ? -1 : 1);
    },
  );
  let matches = 0;
  for (const [name, ports] of services) {
    yield;
    const text = words.length === 0 ? "" : searchText(name, ports);
    if (!words.every((word) => text.includes(word))) continue;
    matches++;
    first.add([name, ports]);
  }
  const shown: ServiceView[] = [];
  for (const [name, ports] of first.inOrder()) {
    shown.push({
      name,
      badges: badgesOf(ports),
      connections: loadText(loads.get(name)),
      routes: ports.slice(0, MOST_PORTS).flatMap(routesOf),
      changes: historyOf(name).slice(0, MOST_CHANGES).map(changeText),
    });
    yield;
  }
  return { matches, services: shown };
}

function* loadsOf(
  all: Iterable<ServiceConnections>,
): Generator<undefined, ReadonlyMap<string, ServiceLoad>> {
  const loads = new Map<string, ServiceLoad>();
  for (const { namespace, service: name, connections, perSecond, reason } of all) {
    const key = objectKey({ namespace, name });
    const known = loads.get(key) ?? NO_LOAD;
    const sent = Number(reason === undefined);
    loads.set(key, {
      connections: known.connections + sent * connections,
      perSecond: known.perSecond + sent * perSecond,
      rejected: known.rejected + (1 - sent) * perSecond,
    });
    yield;
  }
  return loads;
}

function busiestFirst(one = NO_LOAD, other = NO_LOAD): number {
  return other.perSecond - one.perSecond || other.connections - one.connections;
}

function loadText(load: ServiceLoad | undefined): string {
  if (load === undefined) return "";
  const word = load.connections === 1 ? "connection" : "connections";
  const rejected = load.rejected > 0 ? `, ${formatRate(load.rejected)}/s rejected` : "";
  return `${formatRate(load.perSecond)}/s, ${grouped(load.connections)} ${word}${rejected}`;
}

function searchText(name: string, ports: readonly DesiredServicePort[]): string {
  const parts = ports.flatMap((port) => [
    port.name,
    ...frontendsOf(port).map(({ address, port: number }) =>
      `${hostPort(address ?? "", number)}/${port.protocol}`
    ),
    ...usedEndpoints(port).map((endpoint) => hostPort(endpoint.address, endpoint.port)),
  ]);
  return [name, ...parts].join("\n").toLowerCase();
}

function badgesOf(ports: readonly DesiredServicePort[]): string[] {
  const badges = ports.flatMap((port) => [
    ...port.hasEndpoints ? [] : ["no endpoints"],
    ...port.affinitySeconds > 0 ? [`session affinity ${formatAge(port.affinitySeconds)}`] : [],
    ...port.scheduler ? [port.scheduler.type] : [],
    ...port.internalTrafficPolicy === "Local" ? ["internal policy Local"] : [],
    ...port.externalTrafficPolicy === "Local" ? ["external policy Local"] : [],
    ...port.sourceRanges.length > 0 ? ["source ranges"] : [],
  ]);
  const left = ports.length - MOST_PORTS;
  return [...new Set(badges), ...left > 0 ? [`${count(left, "service port")} more`] : []];
}

const FRONTENDS: Readonly<Record<FrontendType, string>> = {
  clusterIP: "cluster IP",
  externalIP: "external IP",
  loadBalancerIP: "load balancer",
  nodePort: "node port",
};

/** Returns the routes of a service port, one for each traffic policy that a frontend follows. */
export function routesOf(port: DesiredServicePort): PolicyRoute[] {
  const byPolicy = Map.groupBy(frontendsOf(port), (frontend) => policyOf(port, frontend));
  return [...byPolicy].map(([policy, frontends]) => {
    const endpoints = endpointsFor(port, policy);
    const isDropped = noEndpointsReason(port, policy) === "no-local-endpoints";
    const left = frontends.length - MOST_FRONTENDS;
    return {
      port: port.name.split(":")[1] ?? "",
      policy,
      frontends: [
        ...frontends.slice(0, MOST_FRONTENDS).map(({ type, address, port: number }) =>
          `${hostPort(address ?? "node", number)}/${port.protocol} ${FRONTENDS[type]}`
        ),
        ...left > 0 ? [`and ${left} more`] : [],
      ],
      endpoints: endpoints.slice(0, MOST_ENDPOINTS).map(({ address, port, local }) => ({
        text: hostPort(address, port),
        isLocal: local,
      })),
      endpointCount: endpoints.length,
      refusal: endpoints.length > 0 ? "" : isDropped ? "dropped" : "rejected",
    };
  });
}

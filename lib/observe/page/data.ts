/** Makes the values of the status page: problems first, each kind counted. */
import type { Severity, Status } from "../../model/status.ts";
import type { ServiceConnections } from "../../model/connections.ts";
import type { DesiredState } from "../../model/kernel/desired.ts";
import { count } from "../../model/values/text.ts";
import { healthOf } from "../human.ts";
import { type StatusView, statusView, type TextRows } from "../status_view.ts";
import { findServices, type FoundServices, type ServiceQuery } from "./services.ts";

export interface PageContents {
  readonly status: Status;
  readonly services: DesiredState["services"];
  /** Empty if connections are not counted. */
  readonly connections: Iterable<ServiceConnections>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

interface Problems extends TextRows {
  /** Counts them: `2 refused objects`. */
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
  readonly notes: TextRows;
  readonly found: FoundServices;
}

/** Rows of one table; `signpost status` prints all. */
const MOST_ROWS = 100;

/** Makes the page's JSON. Yields between Services. */
export function* pageData(
  { status, services, connections, now }: PageContents,
  query: ServiceQuery,
): Generator<undefined, PageData> {
  const view = statusView(status, now);
  const { version, facts, watches, syncs } = view;
  return {
    node: status.node,
    version,
    time: new Date(now).toISOString(),
    health: healthOf(status),
    problems: problemsOf(status, view),
    notes: findingsOf(status, "info"),
    facts,
    syncs,
    watches,
    found: yield* findServices(services, { query, connections }),
  };
}

function problemsOf(status: Status, { watches, refused, conflicts }: StatusView): Problems[] {
  const errors = findingsOf(status, "error");
  const warnings = findingsOf(status, "warning");
  const isFailing = ({ state, lastError }: Status["watches"][number]) =>
    lastError !== "" && state !== "absent";
  const failing = watches.rows.filter((_, i) => status.watches.slice(i, i + 1).some(isFailing));
  const losers = new Set(status.conflicts.map(({ loser }) => loser)).size;
  const kinds: Problems[] = [
    { ...errors, title: count(errors.rows.length, "error"), colour: "red" },
    {
      ...watches,
      rows: failing,
      title: failing.length === 1 ? "1 watch fails" : `${failing.length} watches fail`,
      colour: "red",
    },
    { ...warnings, title: count(warnings.rows.length, "warning"), colour: "yellow" },
    { ...refused, title: count(refused.rows.length, "refused object"), colour: "yellow" },
    { ...conflicts, title: `${count(losers, "Service")} in conflict`, colour: "yellow" },
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

/**
 * Metrics that kube-proxy does not have, those of client-go's REST client, and those that every
 * process has.
 *
 * @module
 */
import { exponentialBuckets } from "./prom_client.ts";
import type { Kind } from "../../model/objects.ts";
import type { ProgramFailure } from "../../model/ports.ts";
import type { MetricFactory } from "./metric_factory.ts";

/** One request to the API server. */
export interface RestRequest {
  /** `GET`, `POST`; lists and watches are GET. */
  readonly method: string;
  /** Path of the request; the query and names of namespaces are taken out. */
  readonly path: string;
  /** Host and port of the API server. */
  readonly host: string;
  /** HTTP status; `undefined`: there was no answer. */
  readonly status: number | undefined;
  /** Until the answer's headers were in. */
  readonly seconds: number;
}

/** Records what is signpost's own. */
export interface SignpostMetrics {
  /** A transaction was given to the kernel. */
  transaction(kind: "full" | "partial", bytes: number): void;
  /** Somebody else had changed our rules, and they were put back. */
  driftRepaired(): void;
  /** A program could not be started, was killed, or did not end in time. */
  programFailed(program: string, reason: ProgramFailure): void;
  /** Number of elements (or rules) by the name of their map, set or chain; the complete list. */
  elements(counts: ReadonlyMap<string, number>): void;
  /** A watch is running, or not. */
  watch(kind: Kind, connected: boolean): void;
  /** A watch has delivered something, bookmarks included. */
  watchActive(kind: Kind): void;
  /** A watch had to start over with a list. */
  relisted(kind: Kind): void;
  /** An object could not be used. */
  objectRefused(kind: Kind): void;
  /** Number of objects that cannot be used at present. */
  objectsRefusedNow(kind: Kind, count: number): void;
  /** Number of virtual IPs and ports at present that more than one Service claims. */
  vipConflicts(count: number): void;
  /** An Event was not sent. */
  eventDropped(): void;
  /** A request to the API server has been answered, or has failed. */
  request(request: RestRequest): void;
}

/** What these metrics read. */
export interface SignpostMetricsOptions {
  /** Seconds since the epoch. */
  readonly now: () => number;
  readonly version: string;
  readonly commit: string;
  /** Seconds since the state file was written; `undefined`: there is none. */
  readonly snapshotAge: () => number | undefined;
  /** The rules are those of the snapshot: the watches have not delivered yet. */
  readonly isStale: () => boolean;
  readonly process: ProcessUsage;
}

/** What the process takes of the machine. */
export interface ProcessUsage {
  /** Bytes of resident memory. */
  residentMemory(): number;
  /** Seconds of processor time, user and system. */
  cpu(): number;
  /** When the process was started, seconds since the epoch. */
  readonly started: number;
}

/** client-go's, seconds. */
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** 256 bytes to 64 MiB. */
const BYTES_BUCKETS = exponentialBuckets(256, 4, 10);

/** Defines the metrics and gives their recorders. */
export function signpostMetrics(
  make: MetricFactory,
  options: SignpostMetricsOptions,
): SignpostMetrics {
  defineReadings(make, options);
  return {
    ...dataplaneMetrics(make),
    ...watchMetrics(make, options),
    ...objectMetrics(make),
    ...requestMetrics(make),
  };
}

function defineReadings(make: MetricFactory, options: SignpostMetricsOptions): void {
  const { version, commit, snapshotAge, isStale, process } = options;
  make.gauge(["signpost_build_info", "Version and commit; always 1"], ["version", "commit"])
    .set({ version, commit }, 1);
  make.readGauge(
    ["signpost_snapshot_age_seconds", "Seconds since the state file was written"],
    snapshotAge,
  );
  make.readGauge(
    ["signpost_state_stale", "1 while the rules are those of the state file"],
    () => isStale() ? 1 : 0,
  );
  make.readGauge(
    ["process_resident_memory_bytes", "Resident memory, in bytes"],
    () => process.residentMemory(),
  );
  make.readGauge(
    ["process_start_time_seconds", "When the process was started, seconds since the epoch"],
    () => process.started,
  );
  make.readCounter(
    ["process_cpu_seconds_total", "Processor time, user and system, in seconds"],
    () => process.cpu(),
  );
}

function dataplaneMetrics(
  make: MetricFactory,
): Pick<SignpostMetrics, "transaction" | "driftRepaired" | "programFailed" | "elements"> {
  const bytes = make.histogram(["signpost_transaction_bytes", "Size of a transaction"], {
    labels: ["kind"],
    buckets: BYTES_BUCKETS,
  });
  const repairs = make.counter(
    ["signpost_drift_repairs_total", "Repairs of rules that another program had changed"],
    [],
  );
  const programs = make.counter(
    [
      "signpost_program_failures_total",
      "Programs that could not be started, were ended by a signal, or did not end in time",
    ],
    ["program", "reason"],
  );
  const elements = make.gauge(["signpost_elements", "Elements of a map or set"], ["map"]);
  return {
    transaction: (kind, size) => bytes.observe({ kind }, size),
    driftRepaired: () => repairs.inc(),
    programFailed: (program, reason) => programs.inc({ program, reason }),
    elements: (counts) => {
      elements.reset();
      for (const [map, count] of counts) elements.set({ map }, count);
    },
  };
}

function watchMetrics(
  make: MetricFactory,
  { now }: SignpostMetricsOptions,
): Pick<SignpostMetrics, "watch" | "watchActive" | "relisted"> {
  const connected = make.gauge(
    ["signpost_watch_connected", "1 while the watch is running"],
    ["kind"],
  );
  const active = make.gauge(
    ["signpost_watch_last_activity_timestamp_seconds", "When the watch last delivered anything"],
    ["kind"],
  );
  const relists = make.counter(
    ["signpost_watch_relists_total", "How often a watch started over with a list"],
    ["kind"],
  );
  return {
    watch: (kind, isConnected) => connected.set({ kind }, isConnected ? 1 : 0),
    watchActive: (kind) => active.set({ kind }, now()),
    relisted: (kind) => relists.inc({ kind }),
  };
}

function objectMetrics(
  make: MetricFactory,
): Pick<
  SignpostMetrics,
  "objectRefused" | "objectsRefusedNow" | "vipConflicts" | "eventDropped"
> {
  const refusals = make.counter(
    ["signpost_objects_refused_total", "Objects that came in and could not be used"],
    ["kind"],
  );
  const refused = make.gauge(
    ["signpost_objects_refused", "Objects that cannot be used at present"],
    ["kind"],
  );
  const conflicts = make.gauge(
    ["signpost_vip_conflicts", "Virtual IPs and ports that more than one Service claims"],
    [],
  );
  const dropped = make.counter(["signpost_events_dropped_total", "Events that were not sent"], []);
  return {
    objectRefused: (kind) => refusals.inc({ kind }),
    objectsRefusedNow: (kind, count) => refused.set({ kind }, count),
    vipConflicts: (count) => conflicts.set(count),
    eventDropped: () => dropped.inc(),
  };
}

/** client-go's own metrics, and the label `url` that older dashboards group by. */
function requestMetrics(make: MetricFactory): Pick<SignpostMetrics, "request"> {
  const requests = make.counter(
    ["rest_client_requests_total", "Requests to the API server"],
    ["code", "host", "method"],
  );
  const durations = make.histogram(
    ["rest_client_request_duration_seconds", "Until the API server answered, in seconds"],
    { labels: ["host", "url", "verb"], buckets: REQUEST_BUCKETS },
  );
  return {
    request: ({ method, path, host, status, seconds }) => {
      // client-go says <error> where there was no answer.
      requests.inc({ code: status === undefined ? "<error>" : String(status), host, method });
      durations.observe({ host, url: pathTemplate(path), verb: method }, seconds);
    },
  };
}

/** Takes out what would make a label of every namespace. */
function pathTemplate(path: string): string {
  return path.replace(/[?#].*$/, "").replace(/\/namespaces\/[^/]+/, "/namespaces/{namespace}");
}

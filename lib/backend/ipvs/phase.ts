/**
 * How a take-over from kube-proxy's ipvs mode goes on: a state, what is seen, and what to do next.
 *
 * @module
 */

/** What one look at the kernel shows. */
export interface Look {
  /** Connections that IPVS carries for kube-proxy's virtual servers; `undefined`: nothing is left of it. */
  readonly connections: number | undefined;
  /** Milliseconds, on the monotonic clock. */
  readonly now: number;
}

/** Where the take-over is. */
export interface Progress {
  /** When connections that are still open end, in milliseconds on the monotonic clock. */
  readonly until: number;
  readonly connections: number;
  /** Looks in a row that found no connection. */
  readonly idle: number;
  readonly step: "wait" | "remove" | "done";
}

/** A connection that is being opened is not counted: one look more tells. */
const IDLE_LOOKS = 2;

/** The beginning. */
export function begin(options: { readonly now: number; readonly grace: number }): Progress {
  return { until: options.now + options.grace, connections: 0, idle: 0, step: "wait" };
}

/** The next step after a look. */
export function advance({ until, idle }: Progress, { connections, now }: Look): Progress {
  if (connections === undefined) return { until, connections: 0, idle: 0, step: "done" };
  const looks = connections === 0 ? idle + 1 : 0;
  const isOver = looks >= IDLE_LOOKS || now >= until;
  return { until, connections, idle: looks, step: isOver ? "remove" : "wait" };
}

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
  /** Nothing is removed before, in milliseconds on the monotonic clock. */
  readonly earliest: number;
  /** When connections that are still open end, and in the step `reset` the guard; on the monotonic clock. */
  readonly until: number;
  readonly connections: number;
  /** Looks in a row that found no connection. */
  readonly idle: number;
  /** `reset`: all is removed, and packets of connections that were open are answered with a reset. */
  readonly step: "wait" | "remove" | "reset" | "done";
}

/** A connection that is being opened is not counted: one look more tells. */
const IDLE_LOOKS = 2;

/**
 * A kube-proxy whose process cannot be seen is detected by its rules, which it writes again at its next
 * sync: every 30 s by default. So two of them are waited for.
 */
const KUBE_PROXY_SYNCS = 60_000;

/** The beginning. */
export function begin({ now, grace }: { readonly now: number; readonly grace: number }): Progress {
  const earliest = now + Math.min(grace, KUBE_PROXY_SYNCS);
  return { earliest, until: now + grace, connections: 0, idle: 0, step: "wait" };
}

/** Milliseconds in which those who go on with a connection that was ended hear of it. */
const RESETS = 60_000;

/** The step after the removal. */
export function removed(before: Progress, now: number): Progress {
  const isOver = before.connections === 0;
  return { ...before, until: now + RESETS, step: isOver ? "done" : "reset" };
}

/** The next step after a look. */
export function advance(before: Progress, { connections, now }: Look): Progress {
  if (connections === undefined) {
    const isReset = before.step === "reset" && now < before.until;
    return { ...before, connections: 0, idle: 0, step: isReset ? "reset" : "done" };
  }
  const idle = connections === 0 ? before.idle + 1 : 0;
  const isOver = now >= before.until || idle >= IDLE_LOOKS && now >= before.earliest;
  return { ...before, connections, idle, step: isOver ? "remove" : "wait" };
}

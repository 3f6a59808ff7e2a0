/**
 * Computes the next step of a take-over from kube-proxy's ipvs mode, from a state and a look at the
 * kernel.
 *
 * @module
 */

/** The result of one look at the kernel. */
export interface Look {
  /** Connections in IPVS to kube-proxy's virtual servers; `undefined` if nothing is left of it. */
  readonly connections: number | undefined;
  /** Milliseconds on the monotonic clock. */
  readonly now: number;
}

/** The progress of the take-over. */
export interface Progress {
  /** The earliest time of the removal, milliseconds on the monotonic clock. */
  readonly earliest: number;
  /** The time at which open connections end, and in step `reset` the guard, on the monotonic clock. */
  readonly until: number;
  readonly connections: number;
  /** Looks in a row without a connection. */
  readonly idle: number;
  /** `reset`: everything is removed, and packets of old connections get a TCP reset. */
  readonly step: "wait" | "remove" | "reset" | "done";
}

/** A second look finds connections that were being opened at the first one. */
const IDLE_LOOKS = 2;

/**
 * Two sync periods of kube-proxy (30 s by default). If its process cannot be seen, the rules that
 * it rewrites reveal it.
 */
const KUBE_PROXY_SYNCS = 60_000;

/** Returns the first state. */
export function begin({ now, grace }: { readonly now: number; readonly grace: number }): Progress {
  const earliest = now + Math.min(grace, KUBE_PROXY_SYNCS);
  return { earliest, until: now + grace, connections: 0, idle: 0, step: "wait" };
}

/** Milliseconds during which clients of ended connections get a reset. */
const RESETS = 60_000;

/** Returns the state after the removal. */
export function removed(before: Progress, now: number): Progress {
  const isOver = before.connections === 0;
  return { ...before, until: now + RESETS, step: isOver ? "done" : "reset" };
}

/** Returns the next state after a look. */
export function advance(before: Progress, { connections, now }: Look): Progress {
  if (connections === undefined) {
    const isReset = before.step === "reset" && now < before.until;
    return { ...before, connections: 0, idle: 0, step: isReset ? "reset" : "done" };
  }
  const idle = connections === 0 ? before.idle + 1 : 0;
  const isOver = now >= before.until || idle >= IDLE_LOOKS && now >= before.earliest;
  return { ...before, connections, idle, step: isOver ? "remove" : "wait" };
}

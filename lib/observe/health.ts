/**
 * Decides if this proxy keeps up, as kube-proxy does (`pkg/proxy/healthcheck/proxy_health.go`). A lost
 * API server does not count: every load balancer would drain every node at once.
 */
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { Progress } from "../model/kernel/dataplane.ts";
import type { Clock } from "../model/ports/ports.ts";

export interface HealthReport {
  readonly healthy: boolean;
  /** The Node was seen, and is not being deleted: load balancers may send traffic here. */
  readonly nodeEligible: boolean;
  /** Wall-clock times, milliseconds since the epoch; `undefined` before the first sync. */
  readonly lastUpdated: number | undefined;
  readonly currentTime: number;
  /** The families that have rules; none before the first sync. One transaction has both, so their health is one. */
  readonly families: readonly Family[];
  /** The families that no rules are written for, and why. */
  readonly missing: ReadonlyMap<Family, string>;
  /** The progress of a large table that is written in portions, if there is one. */
  readonly progress: Progress | undefined;
}

interface ProxyHealthOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Milliseconds that an update may wait; kube-proxy: two sync periods. */
  readonly timeout: number;
  /** The families that no rules are written for, and why: their health is not asked. */
  readonly missing?: ReadonlyMap<Family, string>;
  /** Returns the progress of a large table that is written in portions. */
  readonly progress?: () => Progress | undefined;
}

const NONE: ReadonlyMap<Family, string> = new Map();

/** Failures in a row after which progress no longer counts: each try ends in a failure. */
const MOST_FAILURES = 2;

/** Follows queued updates, finished syncs and the Node. */
export class ProxyHealth {
  #lastUpdated: number | undefined;
  /** The monotonic time of the oldest update that waits. */
  #pendingSince: number | undefined;
  /** The monotonic time of the running sync's last progress; `undefined` if there is none, or the last sync failed. */
  #moved: number | undefined;
  #failures = 0;
  #nodeEligible = false;

  constructor(private readonly options: ProxyHealthOptions) {}

  /** Notes an update that the kernel does not have yet. */
  queued(): void {
    this.#pendingSince ??= this.options.clock.monotonic();
  }

  /** Notes that the kernel has all queued updates. */
  updated(): void {
    this.#pendingSince = undefined;
    this.#moved = undefined;
    this.#failures = 0;
    this.#lastUpdated = this.options.clock.now();
  }

  /** Notes progress with a large table: a part of it was written or compared. */
  moved(): void {
    if (this.#failures < MOST_FAILURES) this.#moved = this.options.clock.monotonic();
  }

  /** Counts a failed sync. */
  failed(): void {
    this.#failures++;
    this.#moved = undefined;
  }

  /** Takes the last known Node. If the Node is deleted, its last state stays. */
  setNode(node: { readonly deleting: boolean }): void {
    this.#nodeEligible = !node.deleting;
  }

  /** Returns true if no update waits for too long; the Node does not count. */
  isHealthy(): boolean {
    return this.report().healthy;
  }

  report(): HealthReport {
    const missing = this.options.missing ?? NONE;
    const lastUpdated = this.#lastUpdated;
    // Before the first sync it is still starting up, and healthy.
    const healthy = lastUpdated === undefined || !this.#isLate();
    return {
      healthy,
      nodeEligible: this.#nodeEligible,
      lastUpdated,
      currentTime: this.options.clock.now(),
      families: lastUpdated === undefined ? [] : FAMILIES.filter((each) => !missing.has(each)),
      missing,
      progress: this.options.progress?.(),
    };
  }

  #isLate(): boolean {
    const since = this.#pendingSince;
    if (since === undefined) return false;
    const quietSince = Math.max(since, this.#moved ?? since);
    return this.options.clock.monotonic() - quietSince >= this.options.timeout;
  }
}

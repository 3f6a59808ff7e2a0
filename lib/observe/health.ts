/** Decides if this proxy is healthy, as kube-proxy does. A lost API server must not drain all nodes at once. */
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { Progress } from "../model/kernel/dataplane.ts";
import type { Clock } from "../model/ports/ports.ts";
import type { SyncProgress } from "../sync/reports.ts";

interface HealthReport {
  /** True if no update waits for too long. The Node does not count. */
  readonly healthy: boolean;
  /** True if the Node was seen and is not being deleted, so load balancers may send traffic here. */
  readonly nodeEligible: boolean;
  /** Wall-clock times, milliseconds since the epoch; `undefined` before the first sync. */
  readonly lastUpdated: number | undefined;
  readonly currentTime: number;
  /** The families that have rules; empty before the first sync. One transaction writes both: they share one health. */
  readonly families: readonly Family[];
  /** The families without rules, with the reason. */
  readonly missing: ReadonlyMap<Family, string>;
  /** The progress of a large table that is written in portions, if there is one. */
  readonly progress: Progress | undefined;
}

interface ProxyHealthOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Milliseconds that an update may wait; kube-proxy: two sync periods. */
  readonly timeout: number;
  readonly missing?: HealthReport["missing"];
  readonly isEligible: () => boolean;
  readonly sync: () => SyncProgress;
  readonly progress?: () => Progress | undefined;
}

/** Failures in a row after which progress no longer counts, because each try fails. */
const MOST_FAILURES = 2;

export class ProxyHealth {
  constructor(private readonly options: ProxyHealthOptions) {}

  report(): HealthReport {
    const { missing = new Map() } = this.options;
    const lastUpdated = this.options.sync().synced || undefined;
    // Before the first sync it is still starting up, and healthy.
    const healthy = lastUpdated === undefined || !this.#isLate();
    return {
      healthy,
      nodeEligible: this.options.isEligible(),
      lastUpdated,
      currentTime: this.options.clock.now(),
      families: lastUpdated === undefined ? [] : FAMILIES.filter((each) => !missing.has(each)),
      missing,
      progress: this.options.progress?.(),
    };
  }

  #isLate(): boolean {
    const { waitingSince, moved, failures } = this.options.sync();
    if (waitingSince === undefined) return false;
    const quietSince = failures < MOST_FAILURES ? Math.max(waitingSince, moved) : waitingSince;
    return this.options.clock.monotonic() - quietSince >= this.options.timeout;
  }
}

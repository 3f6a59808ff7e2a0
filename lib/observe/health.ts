/**
 * Whether this proxy keeps up: the state behind `/healthz`, `/livez` and the health-check node
 * ports, as kube-proxy has it (`pkg/proxy/healthcheck/proxy_health.go`).
 *
 * It tells of this node's own work only. A lost API server changes nothing here: otherwise every
 * load balancer would drain every node at once.
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/address.ts";
import type { Clock } from "../model/ports.ts";

/** Health of one IP family. */
export interface FamilyHealth {
  /** Wall-clock time of the last finished sync, milliseconds since the epoch. */
  readonly lastUpdated: number;
  readonly healthy: boolean;
}

/** Health at one moment. */
export interface HealthReport {
  /** No family has an update that waits for too long. */
  readonly healthy: boolean;
  /** The Node was seen, and is not being deleted: load balancers may send traffic here. */
  readonly nodeEligible: boolean;
  /** Wall-clock times, milliseconds since the epoch; `undefined` before the first sync. */
  readonly lastUpdated: number | undefined;
  readonly currentTime: number;
  /** The families that were synced at least once. */
  readonly families: ReadonlyMap<Family, FamilyHealth>;
  /** The families that no rules are written for, and why. */
  readonly missing: ReadonlyMap<Family, string>;
}

/** What `ProxyHealth` needs. */
export interface ProxyHealthOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Milliseconds that an update may wait; kube-proxy: two sync periods. */
  readonly timeout: number;
  /** The families that no rules are written for, and why: their health is not asked. */
  readonly missing?: ReadonlyMap<Family, string>;
}

const NONE: ReadonlyMap<Family, string> = new Map();

/** Follows queued updates, finished syncs and the Node. */
export class ProxyHealth {
  readonly #options: ProxyHealthOptions;
  readonly #lastUpdated = new Map<Family, number>();
  /** Monotonic time of the oldest update that waits. */
  readonly #pendingSince = new Map<Family, number>();
  #nodeEligible = false;

  constructor(options: ProxyHealthOptions) {
    this.#options = options;
  }

  /** An update came in that the kernel does not have yet. */
  queued(families: readonly Family[] = FAMILIES): void {
    for (const family of families) {
      if (!this.#pendingSince.has(family)) {
        this.#pendingSince.set(family, this.#options.clock.monotonic());
      }
    }
  }

  /** The kernel has everything that was queued. */
  updated(families: readonly Family[] = FAMILIES): void {
    for (const family of families) {
      this.#pendingSince.delete(family);
      this.#lastUpdated.set(family, this.#options.clock.now());
    }
  }

  /** The Node as it was seen last; one that goes is not told, and its last state holds on. */
  setNode(node: { readonly deleting: boolean }): void {
    this.#nodeEligible = !node.deleting;
  }

  /** Whether no update waits for too long; the Node does not count. */
  isHealthy(): boolean {
    return this.report().healthy;
  }

  /** Everything at this moment. */
  report(): HealthReport {
    const families = new Map<Family, FamilyHealth>();
    const missing = this.#options.missing ?? NONE;
    for (const family of FAMILIES) {
      if (missing.has(family)) continue;
      const lastUpdated = this.#lastUpdated.get(family);
      if (lastUpdated === undefined) continue; // It is still starting up, and healthy.
      families.set(family, { lastUpdated, healthy: !this.#isLate(family) });
    }
    const all = [...families.values()];
    return {
      healthy: all.every(({ healthy }) => healthy),
      nodeEligible: this.#nodeEligible,
      lastUpdated: all.length === 0 ? undefined : Math.max(...all.map((one) => one.lastUpdated)),
      currentTime: this.#options.clock.now(),
      families,
      missing,
    };
  }

  #isLate(family: Family): boolean {
    const since = this.#pendingSince.get(family);
    return since !== undefined && this.#options.clock.monotonic() - since >= this.#options.timeout;
  }
}

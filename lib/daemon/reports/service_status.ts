/** Follows which sync wrote the rules of each Service, and reports its status. */
import type { ObjectCache } from "../../cache/cache.ts";
import type { Refusal } from "../../model/cluster/objects.ts";
import { describeUnsupported, worksWithout } from "../../model/kernel/traits.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { ServiceStatus, WrittenBy } from "../../model/status.ts";
import type { Desired } from "../../policy/state.ts";
import type { SyncOutcome } from "../../sync/reports.ts";

interface ServiceStatusSources {
  readonly cache: Pick<ObjectCache, "isWaiting" | "refused">;
  readonly desired: Pick<Desired, "services" | "overLimit" | "unsupported">;
  readonly clock: Pick<Clock, "now">;
  readonly isWriting: (service: string) => boolean;
}

interface Written extends WrittenBy {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** The status of each Service. Services that did not change since the first sync take no memory. */
export class ServiceStatuses {
  #first: Written | undefined;
  #syncs = 0;
  readonly #changed = new Map<string, Written>();
  /** Services whose change the kernel refused, until a sync succeeds. */
  readonly #failed = new Set<string>();

  constructor(private readonly sources: ServiceStatusSources) {}

  follow({ change, applied: kind }: Pick<SyncOutcome, "change" | "applied">): void {
    if (kind === undefined) {
      for (const key of change.services.keys()) this.#failed.add(key);
      return;
    }
    const written = { number: ++this.#syncs, kind, at: this.sources.clock.now() };
    for (const [key, { before, after }] of this.#first ? change.services : []) {
      if (before !== after) this.#note(key, written);
    }
    this.#first ??= written;
    for (const key of this.#failed) this.#note(key, written);
    this.#failed.clear();
  }

  of(service: string): ServiceStatus {
    const hasRules = (this.sources.desired.services.get(service) ?? []).length > 0;
    const written = hasRules ? this.#changed.get(service) ?? this.#first : undefined;
    const rejected = this.#rejection(service);
    const pending = this.#waiting(service);
    return {
      service,
      state: rejected ? "rejected" : pending ? "pending" : written ? "applied" : "absent",
      since: written ? new Date(written.at).toISOString() : "",
      sync: written ? { number: written.number, kind: written.kind } : null,
      reason: rejected || pending,
    };
  }

  #note(key: string, written: Written): void {
    if (this.sources.desired.services.has(key)) this.#changed.set(key, written);
    else this.#changed.delete(key);
  }

  #rejection(service: string): string {
    for (const { kind, key, reason } of refusals(this.sources)) {
      if (kind === "Service" && key === service) return reason;
    }
    const unsupported = this.sources.desired.unsupported().find((each) =>
      each.service === service && !worksWithout(each.feature)
    );
    return unsupported ? describeUnsupported(unsupported) : "";
  }

  #waiting(service: string): string {
    if (this.#failed.has(service)) return "the last sync failed and is tried again";
    if (this.sources.isWriting(service)) return "a sync writes it now";
    return this.sources.cache.isWaiting(service) ? "the next sync writes it" : "";
  }
}

/** Returns all objects whose present state is not used: malformed ones, and those over a limit. */
export function refusals({ cache, desired }: {
  readonly cache: Pick<ObjectCache, "refused">;
  readonly desired: Pick<Desired, "overLimit">;
}): readonly Refusal[] {
  return [...cache.refused, ...desired.overLimit()];
}

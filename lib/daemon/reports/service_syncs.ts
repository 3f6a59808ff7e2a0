/** Follows which sync wrote the rules of each Service. */
import type { Clock } from "../../model/ports/ports.ts";
import type { WrittenBy } from "../../model/status.ts";
import type { Desired } from "../../policy/state.ts";
import type { SyncOutcome } from "../../sync/reports.ts";

interface Written extends WrittenBy {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Services that did not change since the first sync take no memory. */
export class ServiceSyncs {
  #first: Written | undefined;
  #syncs = 0;
  readonly #changed = new Map<string, Written>();
  /** Services whose change the kernel refused, until a sync succeeds. */
  readonly #failed = new Set<string>();

  constructor(
    private readonly options: {
      readonly desired: Pick<Desired, "services">;
      readonly clock: Pick<Clock, "now">;
    },
  ) {}

  follow({ change, applied: kind }: Pick<SyncOutcome, "change" | "applied">): void {
    if (kind === undefined) {
      for (const key of change.services.keys()) this.#failed.add(key);
      return;
    }
    const written = { number: ++this.#syncs, kind, at: this.options.clock.now() };
    for (const [key, { before, after }] of this.#first ? change.services : []) {
      if (before !== after) this.#note(key, written);
    }
    this.#first ??= written;
    for (const key of this.#failed) this.#note(key, written);
    this.#failed.clear();
  }

  /** Returns the sync that wrote the rules of a Service; `undefined` if it has none. */
  lastSync(service: string): Written | undefined {
    const hasRules = (this.options.desired.services.get(service) ?? []).length > 0;
    return hasRules ? this.#changed.get(service) ?? this.#first : undefined;
  }

  hasFailed(service: string): boolean {
    return this.#failed.has(service);
  }

  #note(key: string, written: Written): void {
    if (this.options.desired.services.has(key)) this.#changed.set(key, written);
    else this.#changed.delete(key);
  }
}

/**
 * Reads what the rules of frontends have counted.
 *
 * @module
 */
import type { ConnectionCounters, FrontendCount } from "../../model/kernel/connections.ts";
import type { Family } from "../../model/values/address.ts";
import type { IptablesDataplane } from "./dataplane.ts";
import { countsIn } from "./kernel/connection_counts.ts";

/** The counters of the rules, which are always there. */
export class RuleCounters implements ConnectionCounters {
  /** Only a full script tells: of rules that a partial one deletes, the last count is lost. */
  readonly tellsGone = false;
  /** The first script is a full one. */
  readonly areOurs = true;
  readonly #dataplane: () => IptablesDataplane;
  readonly #listeners: ((last: FrontendCount) => void)[] = [];

  /** @param dataplane the one in use */
  constructor(dataplane: () => IptablesDataplane) {
    this.#dataplane = dataplane;
  }

  /** @inheritdoc */
  async read(): Promise<Iterable<FrontendCount>> {
    return allOf(await this.#dataplane().listFrontends());
  }

  /** @inheritdoc */
  onGone(listener: (last: FrontendCount) => void): void {
    this.#listeners.push(listener);
  }

  /** A family's rules are written again; they had counted what `iptables-save -c` printed. */
  replaced(family: Family, saved: string): void {
    if (this.#listeners.length === 0) return;
    for (const last of countsIn(family, saved)) {
      if (last.connections > 0) { for (const listener of this.#listeners) listener(last); }
    }
  }
}

function* allOf(listings: ReadonlyMap<Family, string>): Iterable<FrontendCount> {
  for (const [family, listing] of listings) yield* countsIn(family, listing);
}

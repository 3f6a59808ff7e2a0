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
  /** The first script is a full one. */
  readonly areOurs = true;
  readonly #dataplane: () => IptablesDataplane;

  /** @param dataplane the one in use */
  constructor(dataplane: () => IptablesDataplane) {
    this.#dataplane = dataplane;
  }

  /** @inheritdoc */
  async read(): Promise<Iterable<FrontendCount>> {
    return allOf(await this.#dataplane().listFrontends());
  }
}

function* allOf(listings: ReadonlyMap<Family, string>): Iterable<FrontendCount> {
  for (const [family, listing] of listings) yield* countsIn(family, listing);
}

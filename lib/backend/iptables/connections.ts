/**
 * Reads the connection counts of frontend rules.
 *
 * @module
 */
import type { ConnectionCounters, FrontendCount } from "../../model/connections.ts";
import type { Family } from "../../model/values/address.ts";
import type { IptablesDataplane } from "./dataplane.ts";
import { countsIn } from "./kernel/connection_counts.ts";

/** Reads the rule counters, which iptables always keeps. */
export class RuleCounters implements ConnectionCounters {
  /** True, because the first script is a full one. */
  readonly areOurs = true;
  readonly #dataplane: () => IptablesDataplane;

  /** @param dataplane returns the dataplane in use */
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

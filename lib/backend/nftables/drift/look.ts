/**
 * Looks whether the kernel holds what it should.
 *
 * @module
 */
import type { DesiredState } from "../../../model/kernel/desired.ts";
import type { Difference, Drift } from "../../../model/kernel/differences.ts";
import type { Clock } from "../../../model/ports/ports.ts";
import { Turns } from "../../../model/ports/in_turns.ts";
import { comparing, parsePlace } from "../kernel/compare.ts";
import { parsingListing, readingTable } from "../kernel/contents.ts";
import { tableOf } from "../delta.ts";
import type { Nft } from "../kernel/nft.ts";
import type { NftablesDataplane } from "../dataplane.ts";
import { inWords } from "./transactions.ts";

/** What a look works with. */
export interface LookOptions {
  readonly nft: Pick<Nft, "ruleCounts" | "listTable">;
  readonly dataplane: Pick<
    NftablesDataplane,
    "applied" | "mayDiffer" | "ruleCounts" | "isLarge"
  >;
  /** The state that the dataplane holds the kernel to. */
  readonly desired: DesiredState;
  readonly clock: Clock;
}

/** Looks, and milliseconds between two of them, where scripts come between. */
const TRIES = 5;
const PAUSE = 200;

/** Something that differs. */
interface Finding {
  /** Two looks that find the same have the same id. */
  readonly id: string;
  readonly what: string;
  readonly isAdded: boolean;
}

/** Compares the kernel's table with the state that was applied last. */
export class Look {
  readonly #options: LookOptions;

  /** @param options what to compare, and how to read it */
  constructor(options: LookOptions) {
    this.#options = options;
  }

  /** Names of chains and sets, and numbers of rules. @returns `undefined` where nothing is missing */
  structure(): Promise<Drift | undefined> {
    return this.#settle(() => this.#missingObjects());
  }

  /** Everything, or of a large table the structure. @returns `undefined` where nothing differs */
  contents(): Promise<Drift | undefined> {
    return this.#options.dataplane.isLarge
      ? this.structure()
      : this.#settle(() => this.#differences());
  }

  /**
   * What is found while a script is under way counts only where it is found again; while a full one is,
   * which may take long and brings everything to the state, nothing counts.
   */
  async #settle(find: () => Promise<readonly Finding[]>): Promise<Drift | undefined> {
    const { dataplane, clock } = this.#options;
    if (dataplane.mayDiffer) return undefined;
    let { applied } = dataplane;
    let findings = await find();
    for (let tries = 1; tries < TRIES && findings.length > 0; tries++) {
      if (applied !== undefined && applied === dataplane.applied) break;
      await clock.sleep(PAUSE);
      applied = dataplane.applied;
      const again = new Set((await find()).map(({ id }) => id));
      findings = findings.filter(({ id }) => again.has(id));
    }
    if (findings.length === 0 || dataplane.mayDiffer) return undefined;
    const some = (isAdded: boolean) =>
      inWords(findings.filter((each) => each.isAdded === isAdded).map(({ what }) => what));
    return { missing: some(false), added: some(true), by: "" };
  }

  async #missingObjects(): Promise<readonly Finding[]> {
    const { nft, dataplane } = this.#options;
    const expected = [...dataplane.ruleCounts];
    const found = await nft.ruleCounts();
    if (found.size === 0) return [WHOLE_TABLE];
    return expected.flatMap(([name, rules]) => {
      const present = found.get(name);
      if (present !== undefined && present >= rules) return [];
      const what = present === undefined ? name : `rule of ${name}`;
      return [{ id: what, what, isAdded: false }];
    });
  }

  async #differences(): Promise<readonly Finding[]> {
    const { nft, clock, desired: { node, services } } = this.#options;
    const turns = new Turns(clock);
    // The next sync changes the state while this one is looked at.
    const state = { node, services: new Map(services) };
    const desired = await turns.run(readingTable(await turns.run(tableOf(state))));
    const held = await turns.run(parsingListing(await nft.listTable()));
    if (!held) return [WHOLE_TABLE];
    const differences = await turns.run(comparing(desired, held, { exactSlots: true }));
    return differences.map((each) => ({
      id: JSON.stringify(each),
      what: describe(each),
      isAdded: each.type === "extra",
    }));
  }
}

const WHOLE_TABLE: Finding = { id: "table", what: "the whole table", isAdded: false };

function describe({ in: place, key }: Difference): string {
  const { type, name } = parsePlace(place);
  switch (type) {
    case "table":
      return key === "" ? place : `${key} of the table`;
    case "chain":
      return key === "" ? `chain of ${name}` : `rule of ${name}`;
    case "set":
      return key === "" ? name : `element of ${name}`;
  }
}

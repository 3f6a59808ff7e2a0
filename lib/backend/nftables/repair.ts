/**
 * Repairs the kernel's table: touched elements, if `nft monitor` told them, else all. A full sync reads a large one
 * back.
 */
import type { DesiredServicePort, DesiredState } from "../../model/kernel/desired.ts";
import type { Difference, Drift } from "../../model/kernel/differences.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { difference } from "../compare.ts";
import { chainPlace, comparing, isOfKernel, parsePlace, TABLE_PLACE } from "./compare.ts";
import type { NftablesDataplane } from "./dataplane.ts";
import { tableOf } from "./delta.ts";
import { mend } from "./mend.ts";
import { type Nft, readable } from "./nft.ts";
import {
  elementKey,
  parsingListing,
  readingTable,
  type SomeElements,
  withElements,
} from "./read.ts";
import { setNamed } from "./sets.ts";
import { elementsOf, type Table } from "./table.ts";
import { inWords, type Touched } from "./transactions.ts";
import type { PartialScript } from "./write.ts";

interface RepairOptions {
  readonly nft: Pick<Nft, "listTable" | "listStructure">;
  readonly dataplane: Pick<NftablesDataplane, "isLarge" | "repairing">;
  readonly touched: Pick<Touched, "isElementsOnly" | "words" | "take">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

/**
 * Returns the script that brings back the applied state, or `undefined` for a full script. No script may be under way.
 */
export async function repairScript(
  { nft, dataplane, touched, clock }: RepairOptions,
  state: DesiredState,
): Promise<PartialScript | undefined> {
  const turns = new Turns(clock);
  const near = await turns.run(tableOf(about(touched.words, state)));
  const keys = new Set<string>();
  for (const each of elementsOf(near.elements)) keys.add(`${each.set.name} ${elementKey(each)}`);
  // More may have been touched meanwhile.
  const { isElementsOnly } = touched;
  const elements = touched.take((set, key) => isOfKernel(set) || keys.has(`${set} ${key}`));
  if (dataplane.isLarge && elements === undefined) return undefined;
  const touchedSets = [...elements?.keys() ?? []].map(setNamed);
  const isWhole = !elements || !isElementsOnly || touchedSets.includes(undefined);
  const known = new Map(near.sets.map((set) => [set.name, set]));
  const desired = isWhole ? await turns.run(tableOf(state)) : {
    ...near,
    sets: touchedSets.flatMap((set) => set ? known.get(set.name) ?? set : []),
    chains: [],
  };
  const listing = () => elements ? nft.listStructure() : nft.listTable();
  const structure = await turns.run(
    isWhole
      ? parsingListing(await readable(listing))
      // Only elements were touched.
      : readingTable({ ...desired, elements: [] }),
  );
  if (!structure) return undefined;
  const wanted = await turns.run(readingTable(elements ? only(desired, elements) : desired));
  const held = elements ? withElements(structure, elements) : structure;
  const differences = await turns.run(comparing(wanted, held));
  const delta = mend({ desired, held, differences });
  return delta && dataplane.repairing(delta);
}

/** Returns the part of a state that may have elements with some words in them. */
function about(words: ReadonlySet<string>, { node, services }: DesiredState): DesiredState {
  const has = (word: string) => words.has(word);
  const isMeant = (port: DesiredServicePort) =>
    port.clusterIPs.some(has) || port.externalIPs.some(has) || port.loadBalancerIPs.some(has) ||
    (port.nodePort !== 0 && has(`${port.nodePort}`)) ||
    [port.clusterEndpoints, port.localEndpoints].some((endpoints) =>
      endpoints.some(({ address, hairpin }) => hairpin && has(address))
    );
  return { node, services: new Map([...services].filter(([, ports]) => ports.some(isMeant))) };
}

function only(table: Table, touched: SomeElements): Table {
  const elements = [...elementsOf(table.elements)].filter((each) =>
    touched.get(each.set.name)?.has(elementKey(each))
  );
  return { ...table, elements };
}

export interface LookOptions {
  readonly nft: Pick<Nft, "listTable" | "listStructure">;
  readonly dataplane: Pick<
    NftablesDataplane,
    "applied" | "mayDiffer" | "ruleCounts" | "isLarge"
  >;
  readonly desired: DesiredState;
  readonly clock: Clock;
}

const TRIES = 5;
const PAUSE = 200;

/** Compares the kernel's table with the applied state, beside syncs. */
export class Look {
  constructor(private readonly options: LookOptions) {}

  /** Compares the names of chains and sets, and the numbers of rules. */
  structure(): Promise<Drift | undefined> {
    return this.#settle(() => this.#missingObjects());
  }

  /** Compares everything, but of a large table only the structure. */
  contents(): Promise<Drift | undefined> {
    return this.options.dataplane.isLarge
      ? this.structure()
      : this.#settle(() => this.#differences());
  }

  /**
   * Returns what differs. While a partial script is under way, it must be found again; while a full one is, nothing
   * counts.
   */
  async #settle(find: () => Promise<readonly Difference[]>): Promise<Drift | undefined> {
    const { dataplane, clock } = this.options;
    if (dataplane.mayDiffer) return undefined;
    const idOf = (each: Difference) => JSON.stringify(each);
    let { applied } = dataplane;
    let findings = await find();
    for (let tries = 1; tries < TRIES && findings.length > 0; tries++) {
      if (applied !== undefined && applied === dataplane.applied) break;
      await clock.sleep(PAUSE);
      applied = dataplane.applied;
      const again = new Set((await find()).map(idOf));
      findings = findings.filter((each) => again.has(idOf(each)));
    }
    if (findings.length === 0 || dataplane.mayDiffer) return undefined;
    const some = (isAdded: boolean) =>
      inWords(findings.filter(({ type }) => (type === "extra") === isAdded).map(describe));
    return { missing: some(false), added: some(true), by: "" };
  }

  async #missingObjects(): Promise<readonly Difference[]> {
    const { nft, dataplane, clock } = this.options;
    const expected = [...dataplane.ruleCounts];
    const held = await new Turns(clock).run(parsingListing(await nft.listStructure()));
    if (!held || held.chains.size + held.sets.size === 0) {
      return [difference("missing", TABLE_PLACE)];
    }
    return expected.flatMap(([name, count]) => {
      const rules = held.chains.get(name)?.filter((rule) => !/^type \w+ hook /.test(rule));
      if (!rules && !held.sets.has(name)) return [difference("missing", name)];
      const lacks = rules !== undefined && rules.length < count;
      return lacks ? [difference("missing", chainPlace(name), { key: "rule" })] : [];
    });
  }

  async #differences(): Promise<readonly Difference[]> {
    const { nft, clock, desired: { node, services } } = this.options;
    const turns = new Turns(clock);
    // The next sync changes the state during this look.
    const state = { node, services: new Map(services) };
    const desired = await turns.run(readingTable(await turns.run(tableOf(state))));
    const held = await turns.run(parsingListing(await nft.listTable()));
    if (!held) return [difference("missing", TABLE_PLACE)];
    return await turns.run(comparing(desired, held));
  }
}

function describe({ in: place, key }: Difference): string {
  const { type, name } = parsePlace(place);
  switch (type) {
    case "table":
      return key === "" ? "the whole table" : `${key} of the table`;
    case "chain":
      return key === "" ? `chain of ${name}` : `rule of ${name}`;
    case "set":
      return key === "" ? name : `element of ${name}`;
  }
}

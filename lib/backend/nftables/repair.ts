/** Compares the kernel's table with the applied state: touched elements, if `nft monitor` reported them, else all. */
import { shortList } from "../../model/values/text.ts";
import type { DesiredServicePort, DesiredState } from "../../model/kernel/desired.ts";
import { type Difference, difference } from "../../model/kernel/differences.ts";
import type { Drift } from "../../model/kernel/dataplane.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { chainPlace, comparing, mend, parsePlace, TABLE_PLACE } from "./compare.ts";
import type { NftablesDataplane } from "./dataplane.ts";
import { tableOf } from "./delta.ts";
import { type Nft, outputOrEmpty } from "./nft.ts";
import {
  elementKey,
  parsingListing,
  readingTable,
  type SomeElements,
  withElements,
} from "./read.ts";
import { setNamed } from "./sets.ts";
import { elementsOf, type Table } from "./table.ts";
import type { Touched } from "./transactions.ts";
import type { PartialScript } from "./write.ts";

interface RepairOptions {
  readonly nft: Pick<Nft, "listTable" | "listStructure">;
  readonly dataplane: Pick<NftablesDataplane, "isLarge" | "repairing">;
  readonly touched: Pick<Touched, "take">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

/** Returns the script that restores the applied state; `undefined` if only a full script does. */
export async function repairScript(
  { nft, dataplane, touched, clock }: RepairOptions,
  state: DesiredState,
): Promise<PartialScript | undefined> {
  const turns = new Turns(clock);
  const { elements: reported, isStructure } = touched.take();
  if (dataplane.isLarge && !reported) return undefined;
  const isUnknown = reported?.size === 0 && !isStructure;
  const elements = isUnknown && !dataplane.isLarge ? undefined : reported;
  const sets = [...elements?.keys() ?? []].map(setNamed);
  const isNear = elements && !isUnknown && !isStructure && !sets.includes(undefined);
  const table = await turns.run(tableOf(isNear ? keepNamed(elements, state) : state));
  const known = new Map(table.sets.map((set) => [set.name, set]));
  const desired = isNear
    ? { ...table, sets: sets.flatMap((set) => set ? known.get(set.name) ?? set : []), chains: [] }
    : table;
  const list = () => elements ? nft.listStructure() : nft.listTable();
  const structure = await turns.run(
    isNear ? readingTable({ ...desired, elements: [] }) : parsingListing(await outputOrEmpty(list)),
  );
  if (!structure) return undefined;
  const wanted = await turns.run(readingTable(elements ? keepTouched(desired, elements) : desired));
  const held = elements ? withElements(structure, elements) : structure;
  const differences = await turns.run(comparing(wanted, held));
  const delta = mend({ desired, held, differences });
  return delta && await turns.run(dataplane.repairing(delta));
}

/** Returns the part of a state whose elements may have these keys: computing all elements takes long. */
function keepNamed(elements: SomeElements, { node, services }: DesiredState): DesiredState {
  const keys = [...elements.values()].flatMap((each) => [...each.keys()]);
  const words = new Set(keys.flatMap((key) => key.split(/[^\w.:]+/)));
  const has = (word: string) => words.has(word);
  const isNamed = (port: DesiredServicePort) =>
    port.clusterIPs.some(has) || port.externalIPs.some(has) || port.loadBalancerIPs.some(has) ||
    (port.nodePort !== 0 && has(`${port.nodePort}`)) ||
    [port.clusterEndpoints, port.localEndpoints].some((endpoints) =>
      endpoints.some(({ address, hairpin }) => hairpin && has(address))
    );
  return { node, services: new Map([...services].filter(([, ports]) => ports.some(isNamed))) };
}

function keepTouched(table: Table, touched: SomeElements): Table {
  const near = table.elements.filter(({ set }) => touched.has(set.name));
  const elements = [...elementsOf(near)].filter((each) =>
    touched.get(each.set.name)?.has(elementKey(each))
  );
  return { ...table, elements };
}

interface LookOptions {
  readonly nft: Pick<Nft, "listTable" | "listStructure">;
  readonly dataplane: Pick<NftablesDataplane, "ruleCounts">;
  readonly desired: DesiredState;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

/** Compares the kernel's table with the applied state while syncs run. So a repair must find the differences again. */
export class Look {
  constructor(private readonly options: LookOptions) {}

  /** Compares the names of chains and sets, and the numbers of rules. */
  async structure(): Promise<Drift | undefined> {
    const { nft, dataplane, clock } = this.options;
    const expected = [...dataplane.ruleCounts];
    const held = await new Turns(clock).run(parsingListing(await nft.listStructure()));
    if (!held || held.chains.size + held.sets.size === 0) {
      return driftOf([difference("missing", TABLE_PLACE)]);
    }
    return driftOf(expected.flatMap(([name, count]) => {
      const rules = held.chains.get(name)?.filter((rule) => !/^type \w+ hook /.test(rule));
      if (!rules && !held.sets.has(name)) return [difference("missing", name)];
      const lacks = rules !== undefined && rules.length < count;
      return lacks ? [difference("missing", chainPlace(name), { key: "rule" })] : [];
    }));
  }

  /** Compares the whole table, which nft lists at once. */
  async contents(): Promise<Drift | undefined> {
    const { nft, clock, desired: { node, services } } = this.options;
    const turns = new Turns(clock);
    // The next sync changes the state during this look.
    const state = { node, services: new Map(services) };
    const desired = await turns.run(readingTable(await turns.run(tableOf(state))));
    const held = await turns.run(parsingListing(await nft.listTable()));
    if (!held) return driftOf([difference("missing", TABLE_PLACE)]);
    return driftOf(await turns.run(comparing(desired, held)));
  }
}

function driftOf(differences: readonly Difference[]): Drift | undefined {
  if (differences.length === 0) return undefined;
  const some = (isAdded: boolean) =>
    shortList(differences.filter(({ type }) => (type === "extra") === isAdded).map(describe));
  return { missing: some(false), added: some(true), by: "", isUnconfirmed: true };
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

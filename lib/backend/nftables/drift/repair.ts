/**
 * Repairs a table that another program has changed: looks first, and writes only what differs.
 *
 * @module
 */
import type { DesiredServicePort, DesiredState } from "../../../model/kernel/desired.ts";
import type { NftablesDataplane } from "../dataplane.ts";
import { atOnce, Turns } from "../../../model/ports/in_turns.ts";
import type { Clock } from "../../../model/ports/ports.ts";
import { compareContents, comparing, isOfKernel } from "../kernel/compare.ts";
import {
  type Contents,
  elementKey,
  NO_CONTENTS,
  parsingListing,
  readingTable,
} from "../kernel/contents.ts";
import { type Nft, readable } from "../kernel/nft.ts";
import { type Delta, tableOf } from "../delta.ts";
import { elementsOf, type Entry, type Table } from "../script/objects.ts";
import type { PartialScript } from "../write.ts";
import { mend } from "./mend.ts";
import type { Touched, TouchedElements } from "./touched.ts";

/** What a repair works with. */
export interface RepairOptions {
  readonly nft: Pick<Nft, "listTable" | "listStructure">;
  readonly dataplane: Pick<NftablesDataplane, "isLarge" | "repair">;
  /** Of which elements `nft monitor` has told. */
  readonly touched: Pick<Touched, "isElementsOnly" | "words" | "take">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

/**
 * The script that brings the table back to what was applied last. No other script may be under way.
 * Where it is known which elements were touched, those alone are compared, and none is listed:
 * that takes nft longer than to write them again. Where nothing else was touched, nothing is listed,
 * and of the Services only those are looked at whose elements they may be.
 *
 * @param state what was applied last
 * @returns `undefined` where a full script has to bring it back: the table is gone, cannot be read, is
 *   too large to be listed, or differs in what parts cannot mend
 */
export async function repairScript(
  { nft, dataplane, touched, clock }: RepairOptions,
  state: DesiredState,
): Promise<PartialScript | undefined> {
  const turns = new Turns(clock);
  const near = await turns.run(tableOf(about(touched.words, state)));
  const keys = await turns.run(keysOf(near.elements));
  // More may have been touched meanwhile.
  const { isElementsOnly } = touched;
  const elements = touched.take((set, key) => isOfKernel(set) || keys.has(`${set} ${key}`));
  if (dataplane.isLarge && elements === undefined) return undefined;
  if (elements && isElementsOnly) {
    const operations = mendElements(near, elements);
    return operations && dataplane.repair(operations);
  }
  // More than elements, or one that was deleted and is not known: all has to be looked at.
  const all = await turns.run(tableOf(state));
  const listing = await readable(() => elements ? nft.listStructure() : nft.listTable());
  const held = await turns.run(parsingListing(listing));
  if (!held) return undefined;
  const wanted = await turns.run(readingTable(elements ? only(all, elements) : all));
  const there = elements ? withElements(held, elements) : held;
  const differences = await turns.run(comparing(wanted, there, { exactSlots: true }));
  const operations = mend({ desired: all, held, differences });
  return operations && dataplane.repair(operations);
}

/** Elements whose keys are printed at one go. */
const BATCH = 200;

function* keysOf(elements: readonly Entry[]): Generator<undefined, ReadonlySet<string>> {
  const keys = new Set<string>();
  for (const each of elementsOf(elements)) {
    keys.add(`${each.set.name} ${elementKey(each)}`);
    if (keys.size % BATCH === 0) yield;
  }
  return keys;
}

/** The part of a state that may have elements with some words in them. */
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

/** What puts elements back that were touched, where all else is as it was. */
function mendElements(
  desired: Table,
  touched: TouchedElements,
): Delta | undefined {
  const sets = new Map([...touched.keys()].map((name) => [name, new Map<string, string>()]));
  const { sets: wanted, remarks, declarations } = atOnce(readingTable(only(desired, touched)));
  const nothing: Contents = {
    ...NO_CONTENTS,
    sets,
    // They are as they were on both sides; they say whether elements count.
    declarations: new Map([...declarations].filter(([name]) => sets.has(name))),
  };
  const differences = compareContents(
    {
      ...nothing,
      sets: new Map([...sets].map(([name, none]) => [name, wanted.get(name) ?? none])),
      remarks,
    },
    withElements(nothing, touched),
    { exactSlots: true },
  );
  return mend({ desired, held: nothing, differences });
}

/** The objects without the elements that were not touched. */
function only(desired: Table, touched: TouchedElements): Table {
  const elements = [...elementsOf(desired.elements)].filter((each) =>
    touched.get(each.set.name)?.has(elementKey(each))
  );
  return { ...desired, elements };
}

/** A table that was listed without elements, with those that were touched and are there. */
function withElements(structure: Contents, touched: TouchedElements): Contents {
  const sets = new Map([...structure.sets.keys()].map((name) => [name, new Map<string, string>()]));
  const remarks = new Map<string, Map<string, string>>();
  for (const [set, elements] of touched) {
    remarks.set(set, new Map());
    for (const [key, element] of elements) {
      if (element === undefined) continue;
      sets.get(set)?.set(key, element.data);
      if (element.remark !== "") remarks.get(set)?.set(key, element.remark);
    }
  }
  return { ...structure, sets, remarks };
}

/**
 * What the table holds, beside what it should.
 *
 * @module
 */
import type { DesiredState } from "../../../model/kernel/desired.ts";
import type { Difference } from "../../../model/kernel/differences.ts";
import type { Comparison, KernelRules } from "../../backend.ts";
import { compareContents } from "../kernel/compare.ts";
import { type Contents, desiredContents, NO_CONTENTS, parsingListing } from "../kernel/contents.ts";
import { TABLE_PLACE } from "../kernel/place.ts";
import { nftablesEntries, stickyClients } from "./entries.ts";
import { frontendIdOf } from "./frontends.ts";
import { desiredFrontends, kernelChanges } from "./kernel_changes.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";

/**
 * Reads a listing of the table.
 *
 * @param listing as `nft list table` prints it; `""`: there is no table
 */
export function nftablesRules(listing: string): KernelRules {
  return rulesOf(atOnce(parsingListing(listing)), listing);
}

/**
 * Compares contents with what should be there.
 *
 * @param listing for the clients of session affinity
 */
export function rulesOf(contents: Contents | undefined, listing: string): KernelRules {
  const held = contents ?? NO_CONTENTS;
  return {
    isEmpty: contents === undefined,
    entries: (ports, node) => nftablesEntries(ports, { node, held }),
    stickyClients: (ports) => stickyClients(ports, listing),
    compare: (state) => compareTable(state, contents),
    changesTo: (state) => kernelChanges(state, held),
  };
}

function compareTable(state: DesiredState, held: Contents | undefined): Comparison {
  const desired = desiredContents(state);
  const differences = held ? compareContents(desired, held) : [NO_TABLE];
  const owners = new Map(desiredFrontends(state));
  return {
    differences: differences.map((each) => ({
      ...each,
      service: owners.get(frontendIdOf(each.in, each.key) ?? "") ?? "",
    })),
    compared: countContents(desired),
  };
}

const NO_TABLE: Difference = {
  type: "missing",
  in: TABLE_PLACE,
  key: "",
  desired: "",
  held: "",
};

function countContents({ sets, chains }: Contents): number {
  let count = 0;
  for (const elements of sets.values()) count += elements.size;
  for (const rules of chains.values()) count += rules.length;
  return count;
}

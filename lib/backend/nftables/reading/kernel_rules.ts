/**
 * What the table holds, beside what it should.
 *
 * @module
 */
import type { DesiredNode, DesiredState } from "../../../model/kernel/desired.ts";
import type { Difference } from "../../../model/kernel/verification.ts";
import type { Comparison, KernelRules } from "../../kernel_rules.ts";
import { compareContents } from "../kernel/compare.ts";
import { type Contents, desiredContents, NO_CONTENTS, parsingListing } from "../kernel/contents.ts";
import { TABLE_PLACE } from "../kernel/place.ts";
import { setNamed } from "../script/sets.ts";
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
  const contents = atOnce(parsingListing(listing));
  const held = contents ?? NO_CONTENTS;
  return {
    isEmpty: contents === undefined,
    entries: (ports, node) => nftablesEntries(ports, { node: asHeld(node, contents), held }),
    stickyClients: (ports) => stickyClients(ports, listing),
    compare: ({ node, services }) =>
      compareTable({ node: asHeld(node, contents), services }, contents),
    changesTo: ({ node, services }) =>
      kernelChanges({ node: asHeld(node, contents), services }, held),
  };
}

/** Whether frontends are cut depends on how many there were, too: the table tells. */
function asHeld(node: DesiredNode, held: Contents | undefined): DesiredNode {
  const hasShard = (name: string) => {
    const set = setNamed(name);
    return set?.role === "services" && set.shard !== undefined;
  };
  return held ? { ...node, cutsFrontends: [...held.sets.keys()].some(hasShard) } : node;
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

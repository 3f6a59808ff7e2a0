/**
 * Compares the kernel's rules with the desired ones.
 *
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import type { DesiredState } from "../../../model/kernel/desired.ts";
import type { Difference } from "../../../model/kernel/differences.ts";
import type { Comparison, KernelRules } from "../../kernel_rules.ts";
import { compareSaved } from "../kernel/compare.ts";
import type { Abilities } from "../script/fixed_rules.ts";
import { fullInput } from "../script/full.ts";
import { CANARY_CHAIN } from "../script/names.ts";
import type { FamilyInput } from "../script/ruleset.ts";
import { iptablesEntries, type SavedFamilies } from "./entries.ts";
import { iptablesKernelChanges } from "./kernel_changes.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";

/** Returns the kernel's rules from the output of the save programs. */
export function iptablesRules(held: SavedFamilies, abilities: Abilities): KernelRules {
  return {
    isEmpty: ![...held.values()].some((saved) => saved.get("nat")?.chains.has(CANARY_CHAIN)),
    entries: (ports, node) => iptablesEntries(ports, { node, held }),
    // xt_recent lists them in /proc/net/xt_recent without the remaining time.
    stickyClients: () => [],
    compare: (state) => compareFamilies(state, { held, abilities }),
    changesTo: (state) => ({ changes: iptablesKernelChanges(state, held), warnings: [] }),
  };
}

function compareFamilies(
  state: DesiredState,
  { held, abilities }: { readonly held: SavedFamilies; readonly abilities: Abilities },
): Comparison {
  const differences: Difference[] = [];
  let compared = 0;
  for (const [family, saved] of held) {
    const input = atOnce(fullInput(state, { family, abilities }));
    compared += countRules(input);
    append(differences, compareSaved(input, saved));
  }
  const names = new Set([...state.services.values()].flat().map(({ name }) => name));
  return {
    differences: differences.map((each) => ({ ...each, service: ownerOf(each, names) })),
    compared,
  };
}

function countRules({ tables }: FamilyInput): number {
  let count = 0;
  for (const { chains, inserted } of tables) {
    count += inserted.length;
    for (const rules of chains.values()) count += rules.length;
  }
  return count;
}

/** Returns the owner from the rule's comment, which begins with the service port's name. */
function ownerOf({ key, desired, held }: Difference, names: ReadonlySet<string>): string {
  for (const [, comment = ""] of `${key} ${desired} ${held}`.matchAll(/--comment "?([^" ]+)/g)) {
    if (names.has(comment)) return comment;
  }
  return "";
}

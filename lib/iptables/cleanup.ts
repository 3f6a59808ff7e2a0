/**
 * Removal of signpost's and kube-proxy's rules, and of nothing else.
 *
 * @module
 */
import type { Family } from "../model/address.ts";
import { OWNER } from "./names.ts";
import { emptyTable, type FamilyInput, type TableInput } from "./ruleset.ts";
import {
  argumentOf,
  isOwnChain,
  referencedByOthers,
  type Saved,
  type SavedRule,
  type SavedTable,
  targetOf,
} from "./saved.ts";

/** What a cleanup removes. */
export interface Cleanup {
  /** The input for the restore program; without tables where nothing is ours. */
  readonly input: FamilyInput;
  /** Chains of ours that a rule of another program leads to, `table chain`: emptied, not removed. */
  readonly kept: readonly string[];
}

/**
 * Finds what is signpost's in what the kernel holds, or kube-proxy's too: they share their names.
 *
 * Kubelet's chains stay, and so do foreign chains, rules and jumps. A jump is ours where it stands
 * in a built-in chain, leads to a chain of ours, and has a comment as kube-proxy writes it.
 */
export function cleanup(
  saved: Saved,
  options: { readonly family: Family; readonly kubeProxy: boolean },
): Cleanup {
  const { family, kubeProxy } = options;
  if (!kubeProxy && !isSignposts(saved)) return { input: { family, tables: [] }, kept: [] };
  const tables: TableInput[] = [];
  const kept: string[] = [];
  for (const table of [...saved.values()].sort((a, b) => a.name < b.name ? -1 : 1)) {
    const chains = [...table.chains].filter(isOwnChain).sort();
    const isOurs = (rule: SavedRule) => isOurJump(table, rule);
    const inUse = referencedByOthers(table, isOurs);
    const jumps = table.rules.filter(isOurs);
    if (chains.length + jumps.length === 0) continue;
    kept.push(
      ...chains.filter((chain) => inUse.has(chain)).map((chain) => `${table.name} ${chain}`),
    );
    tables.push({
      ...emptyTable(table.name),
      chains: new Map(chains.filter((chain) => inUse.has(chain)).map((chain) => [chain, []])),
      deleted: jumps.map(({ chain, rule }) => `${chain} ${rule}`),
      removed: chains.filter((chain) => !inUse.has(chain)),
    });
  }
  return { input: { family, tables }, kept };
}

/** Whether signpost wrote last, and not kube-proxy. */
function isSignposts(saved: Saved): boolean {
  return saved.get("nat")?.rules.some(({ chain, rule }) =>
    chain === "KUBE-MARK-MASQ" && argumentOf(rule, "--comment") === OWNER
  ) ?? false;
}

function isOurJump(table: SavedTable, { chain, rule }: SavedRule): boolean {
  if (!table.builtIn.has(chain)) return false;
  const target = targetOf(rule);
  return target !== undefined && isOwnChain(target) &&
    /^kube(rnetes|-proxy) /.test(argumentOf(rule, "--comment") ?? "");
}

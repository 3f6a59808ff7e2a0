/**
 * Removal of signpost's and kube-proxy's rules, and of nothing else.
 *
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import type { Family } from "../../../model/values/address.ts";
import { HAIRPIN_CHAIN, OWNER, VIRTUAL_IP_CHAIN } from "../script/names.ts";
import { emptyTable, type FamilyInput, type TableInput } from "../script/ruleset.ts";
import {
  argumentOf,
  isIpvsModes,
  isOurJump,
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
  /** Chains that stay as they are, `table chain`, for a successor; see `CleanupOptions`. */
  readonly left: readonly string[];
}

/** Whose rules go. */
export interface CleanupOptions {
  readonly family: Family;
  /** kube-proxy's rules too. */
  readonly kubeProxy: boolean;
  /**
   * Our rules in nftables go on where these end, so that two things stay: `KUBE-MARK-MASQ` where
   * rules of others use it (as CNI's portmap can), and `KUBE-FORWARD` where everything else in
   * FORWARD is refused, for no rule in nftables lets pass what iptables refuses.
   */
  readonly successor?: boolean;
}

/**
 * Finds what is signpost's in what the kernel holds, or kube-proxy's too: they share their names.
 *
 * Kubelet's chains stay, and so do foreign chains, rules and jumps. A jump is ours where it stands
 * in a built-in chain, leads to a chain of ours, and has a comment as kube-proxy writes it.
 */
export function cleanup(saved: Saved, options: CleanupOptions): Cleanup {
  const { family, kubeProxy, successor = false } = options;
  const tables: TableInput[] = [];
  const kept: string[] = [];
  const left: string[] = [];
  for (const table of [...saved.values()].sort((a, b) => a.name < b.name ? -1 : 1)) {
    const isRest = !kubeProxy && isBesideIpvs(saved);
    const isOthers = !kubeProxy && !isRest && !isSignposts(saved) && !isLeftBehind(saved, table);
    const inUse = referencedByOthers(table, (rule) => isOurJump(table, rule));
    const stays = (chain: string) =>
      successor && isNeeded(chain, { table, inUse }) || isRest && isIpvsModes(table.name, chain) ||
      isOthers && !isForgotten(chain, table);
    const chains = [...table.chains].filter((chain) => isOwnChain(chain) && !stays(chain)).sort();
    const jumps = table.rules.filter((rule) =>
      isOurJump(table, rule) && !stays(targetOf(rule.rule) ?? "")
    );
    const named = (list: readonly string[]) => list.map((chain) => `${table.name} ${chain}`);
    if (successor) append(left, named([...table.chains].filter(stays)));
    if (chains.length + jumps.length === 0) continue;
    const emptied = chains.filter((chain) => inUse.has(chain));
    append(kept, named(emptied));
    tables.push({
      ...emptyTable(table.name),
      chains: new Map(emptied.map((chain) => [chain, []])),
      deleted: jumps.map(({ chain, rule }) => `${chain} ${rule}`),
      removed: chains.filter((chain) => !inUse.has(chain)),
    });
  }
  return { input: { family, tables }, kept, left };
}

/** Who wrote the proxy's rules that are there last: the one's chains have the names of the other's. */
export type Owner = "signpost" | "kube-proxy";

/** Whose rules they are; `undefined` where no proxy's are there, or only a rest of them. */
export function ownerOf(saved: Saved): Owner | undefined {
  // Kubelets before 1.27 have KUBE-MARK-MASQ and more, but not this.
  if (![...saved.values()].some(({ chains }) => chains.has("KUBE-SERVICES"))) return undefined;
  return isSignposts(saved) ? "signpost" : "kube-proxy";
}

/** Returns whether packets meet the rules: a rule of a built-in chain leads to the Services. */
export function isHooked(saved: Saved): boolean {
  const nat = saved.get("nat");
  return nat?.rules.some((rule) =>
    isOurJump(nat, rule) && targetOf(rule.rule) === "KUBE-SERVICES"
  ) ?? false;
}

function isSignposts(saved: Saved): boolean {
  return saved.get("nat")?.rules.some(({ chain, rule }) =>
    chain === "KUBE-MARK-MASQ" && argumentOf(rule, "--comment") === OWNER
  ) ?? false;
}

/**
 * kube-proxy's ipvs mode has started over our rules: it takes a part of our chains, and leaves the
 * others. Those refuse what it serves, for its virtual IPs are addresses of the node.
 */
function isBesideIpvs(saved: Saved): boolean {
  const chains = saved.get("nat")?.chains;
  return !isSignposts(saved) && chains?.has("KUBE-NODE-PORT") === true && chains.has(HAIRPIN_CHAIN);
}

/** A kube-proxy that has written its rules over ours knows this chain not, and leaves it where nothing leads to it. */
function isForgotten(chain: string, { rules }: SavedTable): boolean {
  return chain === VIRTUAL_IP_CHAIN && !rules.some(({ rule }) => targetOf(rule) === chain);
}

/** Where KUBE-FORWARD is all that there is, a hand-over has left it. */
function isLeftBehind(saved: Saved, table: SavedTable): boolean {
  return table.name === "filter" && table.chains.has("KUBE-FORWARD") &&
    ownerOf(saved) === undefined;
}

function isNeeded(
  chain: string,
  { table, inUse }: { readonly table: SavedTable; readonly inUse: ReadonlySet<string> },
): boolean {
  if (table.name === "nat") return chain === "KUBE-MARK-MASQ" && inUse.has(chain);
  return table.name === "filter" && chain === "KUBE-FORWARD" && refusesToForward(table);
}

/** Docker sets the policy; some distributions have a last rule. */
function refusesToForward({ builtIn, rules }: SavedTable): boolean {
  const refuses = ({ chain, rule }: SavedRule) =>
    chain === "FORWARD" && /^-j (?:DROP|REJECT)\b/.test(rule);
  return builtIn.get("FORWARD") === "DROP" || rules.some(refuses);
}

/**
 * Finds the rules of signpost and kube-proxy to remove, and no others.
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

/** The result of planning a removal. */
export interface Cleanup {
  /** The input of the restore program; without tables if nothing is to be removed. */
  readonly input: FamilyInput;
  /** Chains that another program's rule leads to, `table chain`: emptied, not removed. */
  readonly kept: readonly string[];
  /** Chains that stay for a successor, `table chain`. See `CleanupOptions`. */
  readonly left: readonly string[];
}

/** The rules to remove. */
export interface CleanupOptions {
  readonly family: Family;
  /** True to remove kube-proxy's rules too. */
  readonly kubeProxy: boolean;
  /**
   * True if signpost's nftables rules follow. Then `KUBE-MARK-MASQ` stays if other rules use it (as
   * CNI's portmap can). `KUBE-FORWARD` stays if FORWARD refuses the rest: nftables cannot accept a
   * packet that iptables refuses.
   */
  readonly successor?: boolean;
}

/**
 * Finds the rules of signpost, or also of kube-proxy, whose names are the same.
 *
 * Kubelet's chains stay, and so do foreign chains, rules and jumps. A jump is signpost's if it
 * stands in a built-in chain, leads to such a chain, and has kube-proxy's comment.
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

/** The proxy that wrote the rules last. Both use the same chain names. */
export type Owner = "signpost" | "kube-proxy";

/** Returns the owner of the rules; `undefined` if there are none, or only a remainder. */
export function ownerOf(saved: Saved): Owner | undefined {
  // Kubelets before 1.27 create KUBE-MARK-MASQ and more, but not this chain.
  if (![...saved.values()].some(({ chains }) => chains.has("KUBE-SERVICES"))) return undefined;
  return isSignposts(saved) ? "signpost" : "kube-proxy";
}

/** Returns true if packets meet the rules: a rule of a built-in chain leads to the Services. */
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
 * Returns true if kube-proxy's ipvs mode started over signpost's rules. It replaces some of the
 * chains. The others refuse its traffic, because its virtual IPs are addresses of the node.
 */
function isBesideIpvs(saved: Saved): boolean {
  const chains = saved.get("nat")?.chains;
  return !isSignposts(saved) && chains?.has("KUBE-NODE-PORT") === true && chains.has(HAIRPIN_CHAIN);
}

/** Returns true for a chain that a later kube-proxy does not know and no rule leads to. */
function isForgotten(chain: string, { rules }: SavedTable): boolean {
  return chain === VIRTUAL_IP_CHAIN && !rules.some(({ rule }) => targetOf(rule) === chain);
}

/** Returns true if KUBE-FORWARD is the only chain, which a hand-over has left. */
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

/** Returns true if FORWARD refuses the rest. Docker sets the policy; some distributions have a last rule. */
function refusesToForward({ builtIn, rules }: SavedTable): boolean {
  const refuses = ({ chain, rule }: SavedRule) =>
    chain === "FORWARD" && /^-j (?:DROP|REJECT)\b/.test(rule);
  return builtIn.get("FORWARD") === "DROP" || rules.some(refuses);
}

/** Finds the rules of signpost and kube-proxy alone, and removes them with every installed iptables. */
import { FAMILIES, type Family, NFT_FAMILY } from "../../../model/values/address.ts";
import { ApplyError, runIfInstalled } from "../../../model/kernel/dataplane.ts";
import type { Logger, ProcessRunner } from "../../../model/ports/ports.ts";
import { type FamilyVariant, restore, save, type Variant } from "./programs.ts";
import { fitTable } from "../script/full.ts";
import {
  countOperations,
  emptyTable,
  type FamilyInput,
  renderFamily,
  type TableInput,
} from "../script/rule.ts";
import {
  argumentOf,
  isIpvsChain,
  jumpsIn,
  parseSaved,
  referencedByOthers,
  type Saved,
  type SavedTable,
  targetOf,
} from "./saved.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import { append } from "../../../model/values/lists.ts";
import { HAIRPIN_CHAIN, OWNER, programName } from "../script/names.ts";

interface Cleanup {
  /** The input of the restore program; without tables if nothing is to be removed. */
  readonly input: FamilyInput;
  /** Chains that another program's rule leads to, `table chain`: emptied, not removed. */
  readonly kept: readonly string[];
  /** Chains that stay for a successor, `table chain`. */
  readonly left: readonly string[];
}

interface Selection {
  /** True to remove kube-proxy's rules too. */
  readonly kubeProxy: boolean;
  /**
   * True if signpost's nftables rules follow. Then `KUBE-MARK-MASQ` stays if other rules use it, as CNI's portmap can.
   * `KUBE-FORWARD` stays if FORWARD refuses all else: nftables cannot accept a packet that iptables refuses.
   */
  readonly successor?: boolean;
}

/** Plans the removal of signpost's rules, or also of kube-proxy's rules, which have the same names. */
export function cleanup(
  saved: Saved,
  { family, kubeProxy, successor = false }: Selection & { readonly family: Family },
): Cleanup {
  const tables: TableInput[] = [];
  const kept: string[] = [];
  const left: string[] = [];
  for (const table of [...saved.values()].sort((a, b) => a.name < b.name ? -1 : 1)) {
    const isRest = !kubeProxy && isBesideIpvs(saved);
    const isOthers = !kubeProxy && !isRest && !isOurs(saved) && !isRemainder(saved, table);
    const inUse = referencedByOthers(table);
    const stays = (chain: string) =>
      successor && isNeeded(chain, { table, inUse }) || isRest && isIpvsChain(table.name, chain) ||
      isOthers;
    const input = fitTable(emptyTable(table.name), table, stays);
    const named = (chains: Iterable<string>) =>
      Array.from(chains, (chain) => `${table.name} ${chain}`);
    if (successor) append(left, named([...table.chains.keys()].filter(stays)));
    append(kept, named(input.chains.keys()));
    if (countOperations(input) > 0) tables.push(input);
  }
  return { input: { family, tables }, kept, left };
}

type Owner = "signpost" | "kube-proxy";

/** Returns the proxy that wrote the rules last; `undefined` without complete rules. */
function ownerOf(saved: Saved): Owner | undefined {
  // kubelet before 1.27 creates KUBE-MARK-MASQ and more, but not this chain.
  if (![...saved.values()].some(({ chains }) => chains.has("KUBE-SERVICES"))) return undefined;
  return isOurs(saved) ? "signpost" : "kube-proxy";
}

function isOurs(saved: Saved): boolean {
  const rules = saved.get("nat")?.chains.get("KUBE-MARK-MASQ") ?? [];
  return rules.some((rule) => argumentOf(rule, "--comment") === OWNER);
}

/** Returns true if kube-proxy's ipvs mode started over signpost's rules. The chains that remain refuse its traffic. */
function isBesideIpvs(saved: Saved): boolean {
  const chains = saved.get("nat")?.chains;
  return !isOurs(saved) && chains?.has("KUBE-NODE-PORT") === true && chains.has(HAIRPIN_CHAIN);
}

/** Returns true if KUBE-FORWARD is the only chain, which a take-over has left. */
function isRemainder(saved: Saved, table: SavedTable): boolean {
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

/** Returns true if FORWARD refuses all else. Docker sets the policy; some distributions have a last rule. */
function refusesToForward({ builtIn }: SavedTable): boolean {
  const { policy = "", rules = [] } = builtIn.get("FORWARD") ?? {};
  return policy === "DROP" || rules.some((rule) => /^-j (?:DROP|REJECT)\b/.test(rule));
}

/** The rules that one program removed, or would remove. */
export interface RemovedRules extends Pick<Cleanup, "kept" | "left"> {
  readonly variant: Variant;
  /** The program, for example `ip6tables-legacy-restore`. */
  readonly program: string;
  /** The input that removes them; `""` if the rules are gone or unknown. */
  readonly text: string;
  readonly owner: Owner | undefined;
  readonly isHooked: boolean;
  /** The reason why the rules are still there. */
  readonly failure?: ApplyError;
}

interface CleanUpOptions extends Selection {
  /** True to plan the removal without doing it. */
  readonly dryRun: boolean;
  /** The variant that signpost itself uses. */
  readonly except?: Variant;
  /** A variant for which only the owner is needed: the plan for 10,000 Services takes 100 ms. */
  readonly ownerOnly?: Variant | undefined;
}

export function warnOfKept({ program, kept }: RemovedRules, logger: Logger): void {
  const message = "a rule of another program leads to this chain: it is emptied, not removed";
  for (const chain of kept) logger.warn(message, { program, chain });
}

/** Removes rules with all programs. @returns an entry for each program that had rules, or failed */
export async function cleanUpKernel(
  runner: ProcessRunner,
  options: CleanUpOptions,
): Promise<readonly RemovedRules[]> {
  const removed: RemovedRules[] = [];
  let isAnyInstalled = false;
  for (const variant of VARIANTS) {
    // Programs without a variant in their names are used only without any other program.
    if (variant === "" && isAnyInstalled) break;
    for (const family of variant === options.except ? [] : FAMILIES) {
      const entry = await cleanUpFamily(runner, { ...options, family, variant });
      if (entry === "not-installed") break;
      isAnyInstalled = true;
      if (entry !== "nothing") removed.push(entry);
    }
    isAnyInstalled ||= variant === options.except;
  }
  return removed;
}

const VARIANTS: readonly Variant[] = ["-nft", "-legacy", ""];

const UNREAD = { text: "", kept: [], left: [], owner: undefined, isHooked: false } as const;

async function cleanUpFamily(
  runner: ProcessRunner,
  options: CleanUpOptions & FamilyVariant,
): Promise<RemovedRules | "nothing" | "not-installed"> {
  const { family, variant, dryRun, successor } = options;
  const program = programName(family, "-restore", variant);
  let entry: RemovedRules = { ...UNREAD, variant, program };
  try {
    const saved = await savedRules(runner, options);
    if (!saved) return "not-installed";
    if (variant === options.ownerOnly) return { ...entry, owner: ownerOf(saved) };
    const { input, ...rest } = cleanup(saved, options);
    const nat = saved.get("nat");
    const jumps = nat ? jumpsIn(nat) : [];
    entry = {
      ...entry,
      ...rest,
      text: atOnce(renderFamily(input)),
      owner: ownerOf(saved),
      isHooked: jumps.some((jump) => targetOf(jump) === "KUBE-SERVICES"),
    };
    if (entry.text === "" && entry.left.length === 0) return "nothing";
    if (dryRun || entry.text === "") return entry;
    await restore(runner, options, entry.text);
    // iptables-nft creates built-in chains and tables on first use. A successor may be writing to them.
    if (variant !== "-legacy" && !successor) {
      for (const table of input.tables) await removeEmptyChains(runner, table, { family, variant });
    }
    return entry;
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { ...entry, failure: error };
  }
}

/** Reads the rules, which are empty if the kernel lacks the family; `undefined` if the program is not installed. */
async function savedRules(runner: ProcessRunner, place: FamilyVariant): Promise<Saved | undefined> {
  try {
    return atOnce(parseSaved(await save(runner, place)));
  } catch (error) {
    const failure = error instanceof ApplyError ? error.failure : undefined;
    if (failure === "program-missing") return undefined;
    if (failure === "not-supported") return new Map();
    throw error;
  }
}

/** Removes built-in chains that held only our jumps, and then an empty table. After a failure, they stay empty. */
async function removeEmptyChains(
  runner: ProcessRunner,
  { table, deleted }: TableInput,
  { family, variant }: FamilyVariant,
): Promise<void> {
  const saved = (await savedRules(runner, { family, variant }))?.get(table);
  for (const chain of new Set(deleted.map((rule) => rule.slice(0, rule.indexOf(" "))))) {
    const { policy, rules } = saved?.builtIn.get(chain) ?? { policy: "", rules: [] };
    if (rules.length > 0 || policy !== "ACCEPT") continue;
    await runIfInstalled(runner, [programName(family, "", variant), "-t", table, "-X", chain]);
  }
  const name = [NFT_FAMILY[family], table] as const;
  const listed = await runIfInstalled(runner, ["nft", "list", "table", ...name]);
  if (listed?.code === 0 && /^table \S+ \S+ \{\s*\}\s*$/.test(listed.stdout)) {
    await runIfInstalled(runner, ["nft", "delete", "table", ...name]).catch(() => {});
  }
}

/**
 * Removes rules with every installed variant of iptables, in both families.
 *
 * @module
 */
import { FAMILIES, type Family } from "../../../model/values/address.ts";
import { ApplyError, rethrowAsApplyError } from "../../../model/kernel/dataplane.ts";
import type { ProcessRunner } from "../../../model/ports/ports.ts";
import type { Variant } from "./variant.ts";
import {
  type Cleanup,
  cleanup,
  type CleanupOptions,
  isHooked,
  type Owner,
  ownerOf,
} from "./cleanup.ts";
import { failureOf, LOCK_WAIT_SECONDS } from "./errors.ts";
import { renderFamily, type TableInput } from "../script/ruleset.ts";
import { runIfInstalled } from "./run.ts";
import { parseSaved, type Saved } from "./saved.ts";
import { programName } from "../script/script.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";

/** The rules that one program removed, or would remove. */
export interface RemovedRules extends Pick<Cleanup, "kept" | "left"> {
  /** The program, for example `ip6tables-legacy-restore`. */
  readonly program: string;
  /** The input that removes them; `""` if there is nothing to remove, or it is unknown. */
  readonly text: string;
  /** The owner of the rules. */
  readonly owner: Owner | undefined;
  /** True if packets meet the rules. */
  readonly isHooked: boolean;
  /** The reason why they are still there. */
  readonly failure?: ApplyError;
}

/** The rules to remove, and the way to do it. */
export interface CleanUpOptions extends Pick<CleanupOptions, "kubeProxy" | "successor"> {
  /** If true, nothing is removed. */
  readonly dryRun: boolean;
  /** The variant that signpost itself uses. */
  readonly except?: Variant;
}

/**
 * Removes the rules of signpost and kube-proxy, and no others.
 *
 * iptables-nft creates built-in chains and tables on first use, so empty ones are removed too. With
 * a successor they stay, because other programs may be writing to them.
 *
 * @returns one entry for each program that had rules to remove, or failed; the others still ran
 */
export async function cleanUpKernel(
  runner: ProcessRunner,
  options: CleanUpOptions,
): Promise<readonly RemovedRules[]> {
  const removed: RemovedRules[] = [];
  let isAnyInstalled = false;
  for (const backend of VARIANTS) {
    // Programs without a variant in their names are used only if there are no others.
    if (backend === "" && isAnyInstalled) break;
    for (const family of backend === options.except ? [] : FAMILIES) {
      const entry = await cleanUpFamily(runner, { ...options, family, backend });
      if (entry === "not-installed") break;
      isAnyInstalled = true;
      if (entry !== "nothing") removed.push(entry);
    }
    isAnyInstalled ||= backend === options.except;
  }
  return removed;
}

const VARIANTS: readonly Variant[] = ["-nft", "-legacy", ""];

interface Place {
  readonly family: Family;
  readonly backend: Variant;
}

async function cleanUpFamily(
  runner: ProcessRunner,
  options: CleanUpOptions & Place,
): Promise<RemovedRules | "nothing" | "not-installed"> {
  const { family, backend, dryRun, successor } = options;
  const program = programName(family, "-restore", backend);
  let entry: RemovedRules = {
    program,
    text: "",
    kept: [],
    left: [],
    owner: undefined,
    isHooked: false,
  };
  try {
    const saved = await savedRules(runner, options);
    if (!saved) return "not-installed";
    const { input, ...rest } = cleanup(saved, options);
    entry = {
      ...entry,
      ...rest,
      text: atOnce(renderFamily(input)),
      owner: ownerOf(saved),
      isHooked: isHooked(saved),
    };
    if (entry.text === "" && entry.left.length === 0) return "nothing";
    if (dryRun || entry.text === "") return entry;
    await restore(runner, program, entry.text);
    if (backend !== "-legacy" && !successor) {
      for (const table of input.tables) await removeEmptyChains(runner, table, { family, backend });
    }
    return entry;
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { ...entry, failure: error };
  }
}

/**
 * Returns true if kube-proxy has replaced signpost's rules in our variant.
 *
 * @throws {ApplyError} if the rules cannot be read
 */
export async function isOverwritten(runner: ProcessRunner, backend: Variant): Promise<boolean> {
  for (const family of FAMILIES) {
    const saved = await savedRules(runner, { family, backend });
    if (saved && ownerOf(saved) === "kube-proxy") return true;
  }
  return false;
}

/** Reads the rules: empty if the kernel lacks the family, `undefined` if the program is not installed. */
async function savedRules(
  runner: ProcessRunner,
  { family, backend }: Place,
): Promise<Saved | undefined> {
  const program = programName(family, "-save", backend);
  const result = await runIfInstalled(runner, [program]);
  if (!result) return undefined;
  if (result.code === 0) return atOnce(parseSaved(result.stdout));
  const failure = failureOf(program, result);
  if (failure.failure === "not-supported") return new Map();
  throw failure;
}

async function restore(runner: ProcessRunner, program: string, text: string): Promise<void> {
  const argv = [program, "-w", `${LOCK_WAIT_SECONDS}`, "--noflush"] as const;
  const result = await runner.run(argv, text).catch(rethrowAsApplyError);
  if (result.code !== 0) throw failureOf(program, result, text);
}

/**
 * Removes built-in chains that held only our jumps, and then an empty table. A failure
 * (iptables-nft before 1.8.8, a crash of nft) is harmless: there are no rules left.
 */
async function removeEmptyChains(
  runner: ProcessRunner,
  { table, deleted }: TableInput,
  { family, backend }: Place,
): Promise<void> {
  const saved = (await savedRules(runner, { family, backend }))?.get(table);
  const inUse = new Set(saved?.rules.map(({ chain }) => chain));
  for (const chain of new Set(deleted.map((rule) => rule.slice(0, rule.indexOf(" "))))) {
    if (inUse.has(chain) || saved?.builtIn.get(chain) !== "ACCEPT") continue;
    await runIfInstalled(runner, [programName(family, "", backend), "-t", table, "-X", chain]);
  }
  const name = [family === 4 ? "ip" : "ip6", table] as const;
  const listed = await runIfInstalled(runner, ["nft", "list", "table", ...name]);
  if (listed?.code === 0 && /^table \S+ \S+ \{\s*\}\s*$/.test(listed.stdout)) {
    await runIfInstalled(runner, ["nft", "delete", "table", ...name]).catch(() => {});
  }
}

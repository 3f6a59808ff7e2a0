/**
 * Cleanup of the kernel: every backend that is installed, both families.
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/address.ts";
import type { ProcessRunner } from "../model/ports.ts";
import type { Backend } from "./backend.ts";
import { type Cleanup, cleanup } from "./cleanup.ts";
import { failureOf, LOCK_WAIT_SECONDS } from "./errors.ts";
import { renderFamily, type TableInput } from "./ruleset.ts";
import { runIfThere } from "./run.ts";
import { parseSaved } from "./saved.ts";
import { programName } from "./script.ts";

/** What was, or would be, removed with one restore program. */
export interface RemovedRules extends Pick<Cleanup, "kept"> {
  /** For example `ip6tables-legacy-restore`. */
  readonly program: string;
  /** The input that removes them. */
  readonly text: string;
}

/**
 * Removes the rules of signpost and kube-proxy, and nothing else.
 *
 * iptables-nft makes built-in chains and tables when it first needs them; those that the removal
 * leaves without any rule are removed too.
 *
 * @param options `dryRun`: only say what would be removed; `kubeProxy`: remove its rules too;
 *   `except`: the backend that signpost
 *   itself is using
 * @returns one entry for each program that had something to remove
 * @throws {ApplyError} where a program refuses
 */
export async function cleanUpKernel(
  runner: ProcessRunner,
  options: {
    readonly dryRun: boolean;
    readonly kubeProxy: boolean;
    readonly except?: Backend;
  },
): Promise<readonly RemovedRules[]> {
  const removed: RemovedRules[] = [];
  for (const backend of await installedBackends(runner)) {
    if (backend === options.except) continue;
    for (const family of FAMILIES) {
      const saved = await save(runner, family, backend);
      if (saved === undefined) continue;
      const { input, kept } = cleanup(parseSaved(saved), { family, kubeProxy: options.kubeProxy });
      const text = renderFamily(input);
      if (text === "") continue;
      const program = programName(family, "-restore", backend);
      removed.push({ program, text, kept });
      if (options.dryRun) continue;
      await restore(runner, program, text);
      if (backend === "-legacy") continue;
      for (const table of input.tables) await removeEmptyChains(runner, table, { family, backend });
    }
  }
  return removed;
}

async function installedBackends(runner: ProcessRunner): Promise<readonly Backend[]> {
  const installed: Backend[] = [];
  for (const backend of ["-nft", "-legacy"] as const) {
    if (await runIfThere(runner, [programName(4, "-save", backend)])) installed.push(backend);
  }
  return installed.length > 0 ? installed : [""];
}

/** `undefined` where the program is not installed, or the kernel does not have this family. */
async function save(
  runner: ProcessRunner,
  family: Family,
  backend: Backend,
): Promise<string | undefined> {
  const program = programName(family, "-save", backend);
  const result = await runIfThere(runner, [program]);
  if (!result || result.code === 0) return result?.stdout;
  const failure = failureOf(program, result);
  if (failure.failure === "not-supported") return undefined;
  throw failure;
}

async function restore(runner: ProcessRunner, program: string, text: string): Promise<void> {
  const result = await runner.run([program, "-w", `${LOCK_WAIT_SECONDS}`, "--noflush"], text);
  if (result.code !== 0) throw failureOf(program, result, text);
}

/**
 * Removes built-in chains that only our jumps were in, and the table if nothing is left in it. What
 * cannot be removed (by iptables-nft before 1.8.8) does no harm: it has no rules.
 */
async function removeEmptyChains(
  runner: ProcessRunner,
  { table, deleted }: TableInput,
  { family, backend }: { readonly family: Family; readonly backend: Backend },
): Promise<void> {
  const saved = parseSaved((await save(runner, family, backend)) ?? "").get(table);
  const inUse = new Set(saved?.rules.map(({ chain }) => chain));
  for (const chain of new Set(deleted.map((rule) => rule.slice(0, rule.indexOf(" "))))) {
    if (inUse.has(chain) || saved?.builtIn.get(chain) !== "ACCEPT") continue;
    await runIfThere(runner, [programName(family, "", backend), "-t", table, "-X", chain]);
  }
  const name = [family === 4 ? "ip" : "ip6", table] as const;
  const listed = await runIfThere(runner, ["nft", "list", "table", ...name]);
  if (listed?.code === 0 && /^table \S+ \S+ \{\s*\}\s*$/.test(listed.stdout)) {
    await runner.run(["nft", "delete", "table", ...name]);
  }
}

/**
 * The results in the documents: those of one run replace older ones of the same name.
 *
 * @module
 */
import { NAMES } from "./catalog.ts";
import { BACKENDS, type RunResult, type Step } from "./steps.ts";
import { hasTable, renderTable, replaceTable } from "./table.ts";

/** The contents of `docs/data/kernels.json`. */
export interface Recorded extends RunResult {
  /** As `2026-11-23`. */
  readonly date: string;
}

/** The results of all runs, below the checkout's root. */
export const RESULTS = "docs/data/kernels.json";
/** Documents that have the table. */
export const DOCUMENTS = ["docs/kernels.md"] as const;

/** Writes the results, and the table into the documents; what was left out stays as it was. */
export async function writeDocuments(root: string, results: readonly RunResult[]): Promise<void> {
  const path = `${root}${RESULTS}`;
  const text = await Deno.readTextFile(path).catch(() => "[]");
  const date = new Date().toISOString().slice(0, 10);
  const fresh = results.filter(({ leftOut }) => leftOut === undefined);
  if (fresh.length === 0) return;
  const all = mergeResults(
    JSON.parse(text) as Recorded[],
    fresh.map((result) => ({ ...result, date })),
  );
  await Deno.writeTextFile(path, `${JSON.stringify(all, undefined, 2)}\n`);
  const table = renderTable(all);
  for (const document of DOCUMENTS) {
    const page = `${root}${document}`;
    const old = await Deno.readTextFile(page);
    if (hasTable(old)) await Deno.writeTextFile(page, replaceTable(old, table));
  }
}

/**
 * Newer results in the place of older ones, in the catalog's order.
 *
 * Steps that a newer result lacks stay, where they are of the same kernel and nft. What was not
 * tried is not recorded.
 */
export function mergeResults(
  older: readonly Recorded[],
  newer: readonly Recorded[],
): Recorded[] {
  const byName = new Map(older.map((result) => [result.name, result]));
  for (const result of newer) {
    const steps = result.steps.filter(({ isTried }) => isTried !== false);
    if (steps.length === 0) continue;
    const before = byName.get(result.name);
    const kept = before && isSame(before, result)
      ? before.steps.filter((old) => !steps.some((step) => keyOf(step) === keyOf(old)))
      : [];
    const all = [...kept, ...steps];
    byName.set(result.name, {
      ...result,
      steps: BACKENDS.flatMap((backend) => all.filter((step) => step.backend === backend)),
      seconds: Math.round(all.reduce((sum, { seconds }) => sum + seconds, 0)),
    });
  }
  return NAMES.flatMap((name) => byName.get(name) ?? []);
}

function isSame(a: RunResult, b: RunResult): boolean {
  return a.version === b.version && a.facts?.nft === b.facts?.nft;
}

function keyOf({ backend, part }: Step): string {
  return `${backend} ${part}`;
}

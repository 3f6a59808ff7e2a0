/**
 * The results in the documents: those of one run replace older ones of the same name.
 *
 * @module
 */
import { NAMES } from "./catalog.ts";
import type { RunResult } from "./steps.ts";
import { renderTable, replaceTable } from "./table.ts";

/** What `docs/kernels.json` holds. */
interface Recorded extends RunResult {
  /** As `2026-11-23`. */
  readonly date: string;
}

/** Writes `kernels.json` and the table of `kernels.md`; what was left out stays as it was. */
export async function writeDocuments(
  folder: string,
  results: readonly RunResult[],
): Promise<void> {
  const path = `${folder}kernels.json`;
  const text = await Deno.readTextFile(path).catch(() => "[]");
  const date = new Date().toISOString().slice(0, 10);
  const fresh = results.filter(({ leftOut }) => leftOut === undefined);
  if (fresh.length === 0) return;
  const all = mergeResults(
    JSON.parse(text) as Recorded[],
    fresh.map((result) => ({ ...result, date })),
  );
  await Deno.writeTextFile(path, `${JSON.stringify(all, undefined, 2)}\n`);
  const page = `${folder}kernels.md`;
  await Deno.writeTextFile(page, replaceTable(await Deno.readTextFile(page), renderTable(all)));
}

/** Newer results in the place of older ones, in the catalog's order. */
export function mergeResults<T extends RunResult>(older: readonly T[], newer: readonly T[]): T[] {
  const byName = new Map([...older, ...newer].map((result) => [result.name, result]));
  return NAMES.flatMap((name) => byName.get(name) ?? []);
}

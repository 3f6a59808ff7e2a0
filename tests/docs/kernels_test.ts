/** The table of kernels in the documents is what the last runs of `deno task kernels` gave. */
import { assert, assertEquals } from "@std/assert";
import { NAMES } from "../../tools/kernels/catalog.ts";
import { DOCUMENTS, RESULTS } from "../../tools/kernels/documents.ts";
import type { RunResult } from "../../tools/kernels/steps.ts";
import { countSteps, hasTable, renderTable, replaceTable } from "../../tools/kernels/table.ts";
import { read } from "./checkout.ts";

const recorded = JSON.parse(await read(RESULTS)) as RunResult[];

Deno.test("the documents have the table of the recorded results", async () => {
  const documents = (await Promise.all(DOCUMENTS.map(read))).filter(hasTable);
  assert(documents.length > 0);
  for (const text of documents) assertEquals(replaceTable(text, renderTable(recorded)), text);
});

Deno.test("the recorded results name their kernels", () => {
  assertEquals(recorded.map(({ name }) => name).filter((name) => !NAMES.includes(name)), []);
  assertEquals(countSteps(recorded).failed, 0);
});

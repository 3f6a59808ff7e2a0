import { assertEquals } from "@std/assert";
import { renderTested, renderTestedSummary, type TestedResult } from "../../tools/tested/table.ts";
import recorded from "../../docs/data/tested.json" with { type: "json" };
import { read } from "./checkout.ts";

const results: readonly TestedResult[] = recorded;

Deno.test("docs/tested.md and README.md have the recorded results", async () => {
  const page = await read("docs/tested.md");
  assertEquals(renderTested(page, results), page);
  const readme = await read("README.md");
  assertEquals(renderTestedSummary(readme, results), readme);
});

Deno.test("README.md names no commit but the recorded ones", async () => {
  const known = new Set(results.map(({ commit }) => commit));
  const readme = (await read("README.md")).replace(
    /<!-- peer: begin -->[^]*<!-- peer: end -->/,
    "",
  );
  const commits = readme.match(/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7}\b/g) ?? [];
  assertEquals(commits.filter((commit) => !known.has(commit)), []);
});

/**
 * The tables of `bench/README.md`, between the page's marks.
 *
 * @module
 */
import { replaceMarked } from "../tools/marked.ts";
import type { Results } from "./results.ts";
import { renderResults } from "./tables.ts";

/** The page with the tables of these results, and when each part was measured. */
export function renderPerformancePage(page: string, results: Results): string {
  const { machine, measured } = results;
  const sittings = Map.groupBy(Object.entries(measured), ([, sitting]) => sitting);
  const lines = [...sittings].map(([sitting, parts]) =>
    `${parts.map(([part]) => part).join(", ")}: ${sitting}`
  );
  const text =
    `Measured on ${machine.cores} cores (${machine.cpu}), kernel ${machine.kernel}, ${machine.nft}.

${lines.map((line) => `- ${line}\n`).join("")}
\`\`\`
${renderResults(results)}\`\`\`
`;
  return replaceMarked(page, { name: "bench", text });
}

/**
 * Writes docs/findings.md from the catalog of node findings.
 *
 * @module
 */
import { CATALOG, type FindingKind } from "../lib/findings/catalog.ts";

const INTRODUCTION = `# Findings

Look the finding's word up in the table. A finding is a problem of this node that an administrator can solve. The log has a
line when one appears and when it is gone. \`signpost check\`, \`signpost status\`, the status page and the metric
\`signpost_node_findings{id,severity}\` list all; \`signpost explain\` lists those that concern a Service.

\`error\`: packets are lost, or rules cannot be written. \`warning\`: some packets will be lost. \`info\`: good to know.

| Finding | Severity | What it means | What to do |
|---|---|---|---|
`;

const RANKS = ["error", "warning", "info"];

/** Returns the page: errors first, then by name. */
export function findingsPage(): string {
  const kinds: readonly (readonly [string, FindingKind])[] = Object.entries(CATALOG);
  const rows = kinds.toSorted(([a, one], [b, other]) =>
    RANKS.indexOf(one.severity) - RANKS.indexOf(other.severity) || (a < b ? -1 : 1)
  ).map(([id, { severity, summary, remedy }]) =>
    `| \`${id}\` | ${severity} | ${summary} | ${remedy.replaceAll("|", "\\|")} |\n`
  );
  return INTRODUCTION + rows.join("");
}

if (import.meta.main) {
  await Deno.writeTextFile(new URL("../docs/findings.md", import.meta.url), findingsPage());
}

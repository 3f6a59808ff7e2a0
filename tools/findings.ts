/**
 * Writes docs/findings.md from the catalog of node findings.
 *
 * @module
 */
import { CATALOG, type FindingKind } from "../lib/findings/catalog.ts";

const INTRODUCTION = `# Node findings

A finding is something about this node that the daemon noticed and that an administrator can change. The same
list is in the log (one line when a finding appears, one when it is gone), \`signpost check\`, \`signpost status\`, the
status page, \`signpost explain\` (the findings that concern a Service) and the metric
\`signpost_node_findings{id,severity}\`. \`signpost check\` works without a daemon, too.
\`error\`: packets die or rules cannot be written. \`warning\`: some packets will die. \`info\`: worth knowing.

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

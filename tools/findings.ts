/**
 * Writes docs/findings.md from the catalog of node findings.
 *
 * @module
 */
import { CATALOG, type FindingKind } from "../lib/findings/catalog.ts";

const INTRODUCTION = `# Findings

A finding is a problem of this node that an administrator can solve. The log has a line when it appears and when it is gone.
\`signpost check\`, \`signpost status\`, the status page and the metric \`signpost_node_findings{id,severity}\` list all.
`;

/** Titles of the parts of the page, by severity. */
const TITLES: Readonly<Record<FindingKind["severity"], string>> = {
  error: "Errors: packets are lost, or rules cannot be written",
  warning: "Warnings: some packets will be lost",
  info: "Information",
};

/** Returns the page: a part for each severity, with a heading for each finding by name. */
export function findingsPage(): string {
  const kinds: readonly (readonly [string, FindingKind])[] = Object.entries(CATALOG);
  const parts = Object.entries(TITLES).map(([severity, title]) => {
    const findings = kinds.filter(([, kind]) => kind.severity === severity)
      .toSorted(([one], [other]) => one < other ? -1 : 1)
      .map(([id, { summary, remedy }]) => `\n### ${id}\n\n${summary}  \n${remedy}\n`);
    return `\n## ${title}\n${findings.join("")}`;
  });
  return INTRODUCTION + parts.join("");
}

if (import.meta.main) {
  await Deno.writeTextFile(new URL("../docs/findings.md", import.meta.url), findingsPage());
}

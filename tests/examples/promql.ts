/** Finds the names in a PromQL expression. */

/** A metric, and the labels that its selector asks for. */
export interface Selector {
  readonly metric: string;
  readonly labels: readonly string[];
}

const WORDS = new Set(["by", "without", "or", "and", "unless", "on", "ignoring", "bool", "offset"]);

/** The metrics of an expression. Enough for our own files: promtool parses them in full. */
export function selectors(expression: string): Selector[] {
  const bare = expression
    .replaceAll(/\b(?:by|without|on|ignoring)\s*\([^)]*\)/g, " ")
    .replaceAll(/\[[^\]]*\]/g, " ");
  const withoutStrings = bare.replaceAll(/"[^"]*"/g, '""');
  return [...withoutStrings.matchAll(/([a-zA-Z_:][\w:]*)\s*(\(|\{[^}]*\})?/g)]
    .filter(([, name = "", rest = ""]) => rest !== "(" && !WORDS.has(name))
    .filter(({ index }) => !isInBraces(withoutStrings, index))
    .map(([, metric = "", rest = ""]) => ({
      metric,
      labels: [...rest.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label),
    }));
}

/** The labels that an expression groups by. */
export function groupings(expression: string): string[] {
  return [...expression.matchAll(/\bby\s*\(([^)]*)\)/g)]
    .flatMap(([, labels = ""]) => labels.split(",").map((label) => label.trim()));
}

function isInBraces(text: string, index: number): boolean {
  const before = text.slice(0, index);
  return before.lastIndexOf("{") > before.lastIndexOf("}");
}

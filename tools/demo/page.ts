/**
 * Prints the demonstration.
 *
 * @module
 */
import type { Outcome } from "../../tests/support/traffic.ts";
import { say } from "../terminal.ts";

/** Prints the title of a part. */
export function title(text: string): void {
  say();
  say(text);
}

/** One row: what was tried, and who answered how often. */
export function row(what: string, request: {
  readonly from: string;
  readonly to: string;
  readonly outcomes: readonly Outcome[];
}): void {
  const { from, to, outcomes } = request;
  const tried = `${from} -> ${to}`.padEnd(31);
  const times = `x${outcomes.length}`.padStart(4);
  say(`  ${what.padEnd(25)} ${tried} ${times}  ${answers(outcomes)}${seen(outcomes)}`);
}

/** `web-1 12, web-2 8`, or `refused 3`, or `no answer 3`. */
export function answers(outcomes: readonly Outcome[]): string {
  const counts = new Map<string, number>();
  for (const outcome of outcomes) {
    const name = nameOf(outcome);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].sort(([a], [b]) => a < b ? -1 : 1)
    .map(([name, count]) => `${name} ${count}`).join(", ");
}

/** Who answered, or what happened instead. */
export function nameOf(outcome: Outcome): string {
  switch (outcome.type) {
    case "answer":
      return outcome.answer.host;
    case "reject":
      return "refused";
    case "drop":
      return "no answer";
  }
}

/** Tells where the servers saw another client than there was. */
function seen(outcomes: readonly Outcome[]): string {
  const others = outcomes.some((outcome) =>
    outcome.type === "answer" && outcome.answer.peer.address !== outcome.source.address
  );
  return others ? "  (masqueraded)" : "";
}

/**
 * The parts of a listed table that carry one Service, and how much there is besides.
 *
 * @param listing what `nft list table` printed
 * @param parts for each map, set or chain to show, which of its lines
 */
export function shorten(listing: string, parts: ReadonlyMap<string, RegExp>): string[] {
  const lines = listing.split("\n").filter((line) => line.trim() !== "");
  const shown: string[] = [];
  let pattern: RegExp | undefined;
  for (const line of lines) {
    const name = /^\t(?:map|set|chain) (\S+) \{$/.exec(line)?.[1];
    if (name !== undefined) pattern = parts.get(name);
    const isBrace = name !== undefined || line === "\t}";
    if (pattern && isBrace) shown.push(line.replace("\t", "  "));
    else if (pattern?.test(line)) shown.push(`    ${line.trim().replace(/(?:,| \})$/, "")}`);
    if (line === "\t}") pattern = undefined;
  }
  return [
    "table inet signpost {",
    ...shown,
    `  # and ${lines.length - shown.length} lines more`,
    "}",
  ];
}

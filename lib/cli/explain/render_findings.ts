/**
 * Findings and the kernel's entries as text for people.
 *
 * @module
 */
import { plain } from "../../model/values/text.ts";
import { type Cell, type Colour, colourTable, type Paint } from "../output.ts";
import type { Finding, KernelReport, TrackedConnection } from "../../explain/report.ts";

const COLOURS: Readonly<Record<Finding["severity"], Colour>> = {
  error: "red",
  warning: "yellow",
  note: "faint",
};

/** One finding after the other, each with what to do. */
export function renderFindings(findings: readonly Finding[], paint: Paint): string {
  return findings.map(({ severity, code, message, hint }) => {
    const head = `${paint(severity, COLOURS[severity])} ${plain(message)} [${code}]\n`;
    return head + (hint === "" ? "" : `  ${paint(`try: ${plain(hint)}`, "faint")}\n`);
  }).join("");
}

/** So many entries that are as they should be are shown, those that differ all. */
const MAX_SAME = 40;

/** What the kernel should hold, and beside it what it does. */
export function renderKernel(
  { state, reason, entries }: KernelReport,
  { paint, onlyDifferent = false }: { readonly paint: Paint; readonly onlyDifferent?: boolean },
): string {
  const different = entries.filter((each) => each.state !== "same");
  const same = onlyDifferent ? [] : entries.filter((each) => each.state === "same");
  const titles: Readonly<Record<KernelReport["state"], string>> = {
    same: `holds all ${entries.length} entries`,
    different: `${different.length} of ${entries.length} entries differ`,
    empty: "holds no rules of signpost's",
    unread: `not read: ${reason}`,
  };
  const colour = state === "same" ? "green" : state === "unread" ? "yellow" : "red";
  const rows: Cell[][] = [...different, ...same.slice(0, MAX_SAME)].map((entry) => [
    { text: entry.state, colour: entry.state === "same" ? "green" : "red" },
    entry.in,
    entry.key,
    entry.desired,
    entry.held || (entry.state === "missing" ? "nothing" : "there"),
  ]);
  const more = same.length - MAX_SAME;
  return `${paint("Kernel", "bold")} ${paint(plain(titles[state]), colour)}\n` +
    colourTable([["", "WHERE", "KEY", "DESIRED", "THE KERNEL HAS"], ...rows], {
      paint,
      indent: "  ",
    }) +
    (more > 0 ? `  and ${more} more that are as they should be\n` : "");
}

/** Prints conntrack entries. */
export function renderConnections(
  connections: readonly TrackedConnection[] | null,
  paint: Paint,
): string {
  if (connections === null) return "";
  const rows: Cell[][] = connections.map((each) => [
    each.protocol,
    each.source,
    each.destination,
    each.isCurrent
      ? each.endpoint
      : { text: `${each.endpoint} (no endpoint now)`, colour: "yellow" },
    each.flags.join(","),
  ]);
  const table = colourTable([["", "CLIENT", "TO", "SENT TO", "STATE"], ...rows], {
    paint,
    indent: "  ",
  });
  return `${paint("Conntrack entries", "bold")} ${rows.length}\n${table}`;
}

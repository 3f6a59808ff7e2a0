/**
 * The results as a table, beside the targets that they are held against.
 *
 * @module
 */
import type { Machine } from "./program.ts";
import { count, milliseconds, ratio, renderTable } from "./report.ts";
import type { SizeResult } from "./size.ts";

/** One sitting. */
export interface Results {
  /** Commit, day and load average. */
  readonly sitting: string;
  readonly machine: Machine;
  readonly sizes: readonly SizeResult[];
}

type Cell = (result: SizeResult) => string;

const ROWS: readonly (readonly [label: string, target: string, cell: Cell])[] = [
  ["process start to first sync done", "3 s at 10,000", ({ start }) => milliseconds(start.total)],
  ["  until the lists are in", "", ({ start }) => milliseconds(start.lists)],
  ["  first sync", "", ({ start }) => milliseconds(start.firstSync)],
  ["  nft -f alone, same script", "", ({ start }) => milliseconds(start.nft)],
  ["  first sync / nft alone", "1.5 x", ({ start }) => ratio(start.ratio)],
  ["  all of it / nft alone", "", ({ start }) => ratio(start.total / start.nft)],
  ["  script", "", ({ start }) => `${(start.bytes / 1e6).toFixed(1)} MB`],
  ["floor: nft -f of one element, p50", "", ({ floor }) => milliseconds(floor.p50)],
  ["floor, until visible, p50", "", ({ floor }) => milliseconds(floor.visible)],
  ["floor, p99", "", ({ floor }) => milliseconds(floor.p99)],
  ["change visible, 2/s, p50", "", ({ steady }) => milliseconds(steady.p50)],
  ["  / floor", "2 x", ({ steady, floor }) => ratio(steady.p50 / floor.p50)],
  ["change visible, 2/s, p99", "", ({ steady }) => milliseconds(steady.p99)],
  ["  / floor", "4 x", ({ steady, floor }) => ratio(steady.p99 / floor.p50)],
  ["operations per change", "flat", ({ steady }) => count(steady.operationsPerChange)],
  ["bytes of script per change", "flat", ({ steady }) => count(steady.bytesPerChange)],
  ["bytes allocated per change", "flat", ({ allocated }) => count(Math.round(allocated))],
  ["change visible, 200/s, first fifth", "", ({ burst }) => milliseconds(burst.firstFifth)],
  ["change visible, 200/s, last fifth", "no queue", ({ burst }) => milliseconds(burst.lastFifth)],
  ["  still pending 1 s later", "0", ({ burst }) => count(burst.pending)],
  ["CPU at 10 changes/s", "10 % at 10,000", ({ cpu }) => `${(cpu * 100).toFixed(1)} %`],
];

/** Returns the table, and where and when it was measured. */
export function renderResults({ sitting, machine, sizes }: Results): string {
  const heads = sizes.map(({ services }) => `${count(services)} services`);
  const rows = ROWS.map(([label, target, cell]) => [label, ...sizes.map(cell), target] as const);
  return `Measured at ${sitting}: ${machine.cores} cores (${machine.cpu}), kernel ${machine.kernel}, ${machine.nft}.

\`\`\`
${renderTable(["", ...heads, "target"], rows)}\`\`\`
`;
}

/**
 * `bench/scale.md`, made of the results.
 *
 * @module
 */
import { count, megabytes, milliseconds, type Row } from "../report.ts";
import { median } from "../statistics.ts";
import { exponent, GOALS } from "./goals.ts";
import type { ScaleResult, ScaleResults, Shape } from "./results.ts";

/** The page. */
export function renderPage(results: ScaleResults): string {
  const { sitting, machine, minutes, base, noLimit, shapes } = results;
  const versions = [...new Set(shapes.flatMap(({ limit }) => limit?.version ?? []))];
  const limit = versions.length > 0
    ? `The memory limit is that of the unit (\`MemoryMax\`), in a cgroup of version ${
      versions.join(" and ")
    }.`
    : `The memory limit was not tried${noLimit === "" ? "" : `: ${noLimit}`}.`;
  return `<!-- Written by \`deno task bench scale\`; change bench/scale/page.ts. -->
# At scale

Clusters of the sizes that people have published: 5,006 Services with 250,011 endpoints
([#135639](https://github.com/kubernetes/kubernetes/issues/135639)), 44,125 Services
([#139513](https://github.com/kubernetes/kubernetes/issues/139513)), and beyond. Services × endpoints of each.

Measured at ${sitting}: ${machine.cores} cores (${machine.cpu}), kernel ${machine.kernel}, ${machine.nft},
in one sitting of ${Math.ceil(minutes)} minutes. signpost is the
program of the binary with its V8 flags and with the defaults that the unit starts it with, the state file among them, at log level 2; the
API server is in the same namespace. \`deno task bench scale\` measures it on the machine that it runs on.
${failureLines(results).map((line) => `\n${line}\n`).join("")}

People reported full syncs of kube-proxy from larger machines: 16m43s in #139513 (1.36.1), 2 to 20 minutes in #135639.

${markdownTable(measureRows(results))}

A restart finds the table in place. The exponent is that of growth with the elements (each Service has one, and each endpoint): 1 is linear, 0 flat. A change is
an endpoint of another address, four a second, until the kernel tells of the commit. Memory is resident; a peak is
that of one process, the largest of its kind. A foreign change is the deletion of one element by another program, three times:
it is noticed when the log names it, and repaired when it is back.
Steady memory is read after the foreign changes and a rest. The README's RSS names its own commit, and is read after changes alone.
The health server is asked every 10 ms by another process, by a new connection each time, and is silent from a question to its answer; a full sync is one
that finds the table as it should be. Work until it answers is what signpost's main thread computes from a question to the answer: the turn that goes on, and a collection where one comes.

## Goals

${markdownTable(goalRows(results))}

The base, a daemon with one Service after the same changes and repairs, is ${
    megabytes(base)
  }; over it 0.5 kB for each endpoint and 3 kB for each Service are
allowed. ${limit}
${renderMissed(results)}`;
}

/** Empty where all goals are met. */
function renderMissed(results: ScaleResults): string {
  const rows = missedRows(results);
  if (rows.length === 0) return "";
  const head: Row = ["missed", "Services x endpoints", "by", "floor: nft -f alone", "reason"];
  return `\n${markdownTable([head, ...rows])}\n`;
}

function markdownTable([head, ...rows]: readonly [Row, ...Row[]]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, column) => column === 0 ? "---" : "---:");
  return [line(head), `|${rule.join("|")}|`, ...rows.map(line)].join("\n");
}

/** Something measured, and how it is printed. */
type Measure = readonly [
  label: string,
  value: (result: ScaleResult) => number,
  print: (value: number) => string,
];

const MEASURES: readonly Measure[] = [
  ["first sync", (r) => r.first.sync, milliseconds],
  ["process start to first sync", (r) => r.first.total, milliseconds],
  ["floor: nft -f alone, same script", (r) => r.floor.time, milliseconds],
  ["restart: first sync, table in place", (r) => r.restart.sync, milliseconds],
  ["restart: process start to first sync", (r) => r.restart.total, milliseconds],
  ["lone change, p50", (r) => r.change.p50, milliseconds],
  ["lone change, p99", (r) => r.change.p99, milliseconds],
  ["CPU per change, signpost", (r) => r.change.cpu.own, milliseconds],
  ["CPU per change, nft", (r) => r.change.cpu.children, milliseconds],
  ["foreign change noticed, median", (r) => median(r.drift.map((d) => d.noticed)), milliseconds],
  ["foreign change repaired, median", (r) => median(r.drift.map((d) => d.repaired)), milliseconds],
  [
    "foreign change repaired, slowest",
    (r) => Math.max(...r.drift.map((d) => d.repaired)),
    milliseconds,
  ],
  ["health server silent, first sync", (r) => r.silence.first.wait, milliseconds],
  ["health server silent, restart", (r) => r.silence.restart.wait, milliseconds],
  ["health server silent, full sync", (r) => r.silence.full.wait, milliseconds],
  ["signpost, steady", (r) => r.steady.own, megabytes],
  ["signpost, peak of first sync", (r) => r.first.peaks.own, megabytes],
  ["signpost, peak of restart", (r) => r.restart.peaks.own, megabytes],
  ["nft, peak of first sync", (r) => r.first.peaks.child, megabytes],
  ["nft, peak of restart", (r) => r.restart.peaks.child, megabytes],
  ["nft monitor, steady", (r) => r.steady.children, megabytes],
  ["floor: nft -f alone, peak", (r) => r.floor.peak, megabytes],
  ["script", (r) => r.floor.script, megabytes],
];

/** The name of a shape: `5,006 x 50`. */
function shapeName({ services, endpoints }: Shape): string {
  return `${count(services)} x ${count(endpoints)}`;
}

/** Elements of the rules: of each Service one, and its endpoints. */
function elements({ services, endpoints }: Shape): number {
  return services * (endpoints + 1);
}

/** Returns a head, and a row for each measure, with the exponent of its growth at the end. */
function measureRows({ shapes }: ScaleResults): readonly [head: Row, ...rows: Row[]] {
  const rows = MEASURES.map(([label, value, print]): Row => {
    const growth = exponent(shapes.map((shape) => [elements(shape), value(shape)]));
    return [
      label,
      ...shapes.map((shape) => print(value(shape))),
      Number.isFinite(growth) ? growth.toFixed(2) : "",
    ];
  });
  return [["", ...shapes.map(shapeName), "exponent"], ...rows];
}

/** The goals: a head, and a row for each of them. */
function goalRows(results: ScaleResults): readonly [head: Row, ...rows: Row[]] {
  const rows = GOALS.map(({ name, judge }): Row => [
    name,
    ...results.shapes.map((shape) => {
      const verdict = judge(shape, results);
      if (verdict === undefined) return "";
      return `${verdict.met ? "met" : "missed"}: ${verdict.value} of ${verdict.goal}`;
    }),
  ]);
  return [["goal", ...results.shapes.map(shapeName)], ...rows];
}

/** Goals that are missed, each with the reason and the floor; empty where all are met. */
function missedRows(results: ScaleResults): readonly Row[] {
  return GOALS.flatMap(({ name, reason, judge }) =>
    results.shapes.flatMap((shape): Row[] => {
      const verdict = judge(shape, results);
      if (verdict === undefined || verdict.met) return [];
      const { time, peak } = shape.floor;
      return [[
        name,
        shapeName(shape),
        `${verdict.value} of ${verdict.goal}`,
        `${milliseconds(time)}, ${megabytes(peak)}`,
        reason,
      ]];
    })
  );
}

/** Shapes that have no results, a line each. */
function failureLines({ failed }: ScaleResults): readonly string[] {
  return failed.map((each) => `Not measured: ${shapeName(each)}: ${each.reason.split("\n")[0]}`);
}

/**
 * Prints measures and goals as rows: for the terminal and for the page.
 *
 * @module
 */
import { count, megabytes, milliseconds, renderTable, type Row } from "../report.ts";
import { median } from "../statistics.ts";
import { exponent, GOALS } from "./goals.ts";
import type { ScaleResult, ScaleResults, Shape } from "./results.ts";

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
  ["health server silent, first sync", (r) => r.silence?.first.wait ?? NaN, milliseconds],
  ["health server silent, restart", (r) => r.silence?.restart.wait ?? NaN, milliseconds],
  ["health server silent, full sync", (r) => r.silence?.full.wait ?? NaN, milliseconds],
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
export function elements({ services, endpoints }: Shape): number {
  return services * (endpoints + 1);
}

/** Returns a head, and a row for each measure, with the exponent of its growth at the end. */
export function measureRows({ shapes }: ScaleResults): readonly [head: Row, ...rows: Row[]] {
  const rows = MEASURES.map(([label, value, print]): Row => {
    const growth = exponent(shapes.map((shape) => [elements(shape), value(shape)]));
    return [
      label,
      ...shapes.map((shape) => Number.isNaN(value(shape)) ? "" : print(value(shape))),
      Number.isFinite(growth) ? growth.toFixed(2) : "",
    ];
  });
  return [["", ...shapes.map(shapeName), "exponent"], ...rows];
}

/** The goals: a head, and a row for each of them. */
export function goalRows(results: ScaleResults): readonly [head: Row, ...rows: Row[]] {
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
export function missedRows(results: ScaleResults): readonly Row[] {
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
export function failureLines({ failed }: ScaleResults): readonly string[] {
  return failed.map((each) => `Not measured: ${shapeName(each)}: ${each.reason.split("\n")[0]}`);
}

/** For the terminal. */
export function renderScaleTables(results: ScaleResults): string {
  const [head, ...rows] = measureRows(results);
  const [goalHead, ...goals] = goalRows(results);
  const notes = failureLines(results).concat(
    results.noLimit === "" ? [] : `No memory limit tried: ${results.noLimit}`,
  );
  return `${renderTable(head, rows)}\n${renderTable(goalHead, goals)}${
    notes.map((note) => `\n${note}\n`).join("")
  }`;
}

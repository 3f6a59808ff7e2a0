/**
 * What was measured and what it is held against, as rows: for the terminal and for the page.
 *
 * @module
 */
import { count, megabytes, milliseconds, renderTable, type Row } from "../report.ts";
import { median } from "../statistics.ts";
import { exponent, GOALS } from "./goals.ts";
import type { ScaleResult, ScaleResults, Shape } from "./results.ts";

/** Something measured, by its label. */
interface Measure {
  readonly label: string;
  readonly value: (result: ScaleResult) => number;
  readonly print: (value: number) => string;
  /** Whether the exponent of its growth says something. */
  readonly grows?: boolean;
}

const MEASURES: readonly Measure[] = [
  { label: "first sync", value: (r) => r.first.sync, print: milliseconds, grows: true },
  {
    label: "process start to first sync",
    value: (r) => r.first.total,
    print: milliseconds,
    grows: true,
  },
  {
    label: "floor: nft -f alone, same script",
    value: (r) => r.floor.time,
    print: milliseconds,
    grows: true,
  },
  {
    label: "restart, table in place: sync",
    value: (r) => r.restart.sync,
    print: milliseconds,
    grows: true,
  },
  {
    label: "process start to that",
    value: (r) => r.restart.total,
    print: milliseconds,
    grows: true,
  },
  { label: "lone change, p50", value: (r) => r.change.p50, print: milliseconds, grows: true },
  { label: "lone change, p99", value: (r) => r.change.p99, print: milliseconds, grows: true },
  {
    label: "CPU per change, signpost",
    value: (r) => r.change.cpu.own,
    print: milliseconds,
    grows: true,
  },
  {
    label: "CPU per change, nft",
    value: (r) => r.change.cpu.children,
    print: milliseconds,
    grows: true,
  },
  {
    label: "foreign change noticed, median",
    value: (r) => median(r.drift.map(({ noticed }) => noticed)),
    print: milliseconds,
    grows: true,
  },
  {
    label: "foreign change repaired, median",
    value: (r) => median(r.drift.map(({ repaired }) => repaired)),
    print: milliseconds,
    grows: true,
  },
  {
    label: "foreign change repaired, slowest",
    value: (r) => Math.max(...r.drift.map(({ repaired }) => repaired)),
    print: milliseconds,
    grows: true,
  },
  {
    label: "health server silent, first sync",
    value: (r) => r.silence?.first.wait ?? NaN,
    print: milliseconds,
  },
  {
    label: "health server silent, restart",
    value: (r) => r.silence?.restart.wait ?? NaN,
    print: milliseconds,
  },
  {
    label: "health server silent, full sync",
    value: (r) => r.silence?.full.wait ?? NaN,
    print: milliseconds,
  },
  { label: "signpost, steady", value: (r) => r.steady.own, print: megabytes, grows: true },
  {
    label: "signpost, peak of first sync",
    value: (r) => r.first.peaks.own,
    print: megabytes,
    grows: true,
  },
  {
    label: "signpost, peak of restart",
    value: (r) => r.restart.peaks.own,
    print: megabytes,
    grows: true,
  },
  {
    label: "nft, peak of first sync",
    value: (r) => r.first.peaks.child,
    print: megabytes,
    grows: true,
  },
  {
    label: "nft, peak of restart",
    value: (r) => r.restart.peaks.child,
    print: megabytes,
    grows: true,
  },
  { label: "nft monitor, steady", value: (r) => r.steady.children, print: megabytes },
  { label: "nft -f alone, peak", value: (r) => r.floor.peak, print: megabytes, grows: true },
  { label: "script", value: (r) => r.floor.script, print: megabytes, grows: true },
];

/** The name of a shape: `5,006 x 50`. */
export function shapeName({ services, endpoints }: Shape): string {
  return `${count(services)} x ${count(endpoints)}`;
}

/** Elements of the rules: of each Service one, and its endpoints. */
export function elements({ services, endpoints }: Shape): number {
  return services * (endpoints + 1);
}

/** What was measured: a head, and a row for each measure, with the exponent of its growth at the end. */
export function measureRows({ shapes }: ScaleResults): readonly [head: Row, ...rows: Row[]] {
  const rows = MEASURES.map(({ label, value, print, grows }): Row => {
    const growth = exponent(shapes.map((shape) => [elements(shape), value(shape)]));
    return [
      label,
      ...shapes.map((shape) => Number.isNaN(value(shape)) ? "" : print(value(shape))),
      grows && Number.isFinite(growth) ? growth.toFixed(2) : "",
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

/** For the terminal. */
export function renderScaleTables(results: ScaleResults): string {
  const [head, ...rows] = measureRows(results);
  const [goalHead, ...goals] = goalRows(results);
  const noLimit = results.noLimit === "" ? "" : `\nNo memory limit tried: ${results.noLimit}\n`;
  return `${renderTable(head, rows)}\n${renderTable(goalHead, goals)}${noLimit}`;
}

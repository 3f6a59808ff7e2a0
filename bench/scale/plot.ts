/**
 * The results of the scale as an SVG picture.
 *
 * @module
 */
import { type Axis, BLUE, GREEN, GREY, type Panel, RED, renderPanels } from "../panels.ts";
import { median } from "../statistics.ts";
import type { ScaleResult } from "./results.ts";
import { elements } from "./tables.ts";

const X: Axis = {
  range: [8_000, 1_600_000],
  ticks: [[10_000, "10,000"], [100_000, "100,000"], [1_000_000, "1,000,000"]],
};

const TIMES: Axis = {
  range: [4, 100_000],
  ticks: [[10, "10 ms"], [100, "100 ms"], [1_000, "1 s"], [10_000, "10 s"]],
};

const BYTES: Axis = {
  range: [3e6, 4e9],
  ticks: [[10e6, "10 MB"], [100e6, "100 MB"], [1e9, "1 GB"]],
};

const LABEL = "elements: a Service has one, and so has each endpoint";

/** Draws all shapes, by their number of elements. */
export function renderScalePlot(shapes: readonly ScaleResult[]): string {
  const sorted = [...shapes].sort((a, b) => elements(a) - elements(b));
  const line = (value: (result: ScaleResult) => number) =>
    sorted.map((result) => [elements(result), value(result)] as const);
  const panels: readonly Panel[] = [
    {
      title: "time",
      label: LABEL,
      x: X,
      y: TIMES,
      lines: [
        {
          name: "nft -f, all at once",
          color: GREY,
          dashed: true,
          points: line((r) => r.floor.time),
        },
        { name: "first sync", color: BLUE, points: line((r) => r.first.sync) },
        { name: "restart", color: GREEN, points: line((r) => r.restart.sync) },
        {
          name: "repair",
          color: RED,
          points: line((r) => median(r.drift.map(({ repaired }) => repaired))),
        },
        { name: "change, p99", color: BLUE, dashed: true, points: line((r) => r.change.p99) },
        { name: "change, p50", color: BLUE, points: line((r) => r.change.p50) },
      ],
    },
    {
      title: "resident memory",
      label: LABEL,
      x: X,
      y: BYTES,
      lines: [
        {
          name: "nft -f, all at once",
          color: GREY,
          dashed: true,
          points: line((r) => r.floor.peak),
        },
        {
          name: "signpost, peak",
          color: BLUE,
          dashed: true,
          points: line((r) => r.first.peaks.own),
        },
        { name: "signpost, steady", color: BLUE, points: line((r) => r.steady.own) },
        { name: "nft, peak", color: RED, dashed: true, points: line((r) => r.first.peaks.child) },
        { name: "nft monitor", color: RED, points: line((r) => r.steady.children) },
      ],
    },
  ];
  return renderPanels(panels);
}

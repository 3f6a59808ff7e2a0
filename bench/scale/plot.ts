/**
 * The results of the scale as an SVG picture, beside full syncs of kube-proxy that people published.
 *
 * @module
 */
import { type Axis, BLUE, GREY, type Note, type Panel, RED, renderPanels } from "../panels.ts";
import type { ScaleResult } from "./results.ts";
import { elements } from "./tables.ts";

const X: Axis = {
  range: [8_000, 1_600_000],
  ticks: [[10_000, "10,000"], [100_000, "100,000"], [1_000_000, "1,000,000"]],
};

const Y: Axis = {
  range: [4, 3_000_000],
  ticks: [
    [10, "10 ms"],
    [100, "100 ms"],
    [1_000, "1 s"],
    [10_000, "10 s"],
    [60_000, "1 min"],
    [600_000, "10 min"],
  ],
};

/** Full syncs of kube-proxy in nftables mode, as they were reported. */
const PUBLISHED: readonly Note[] = [
  {
    x: elements({ services: 44_125, endpoints: 1 }),
    y: [1_003_896, 1_003_896],
    color: RED,
    text: ["kube-proxy", "16m43s", "#139513"],
    side: "left",
  },
  {
    x: elements({ services: 5_006, endpoints: 50 }),
    y: [120_000, 1_200_000],
    color: RED,
    text: ["kube-proxy", "2 to 20 min", "#135639"],
    side: "right",
  },
];

/** Draws all shapes, by their number of elements. */
export function renderScalePlot(shapes: readonly ScaleResult[]): string {
  const sorted = [...shapes].sort((a, b) => elements(a) - elements(b));
  const line = (value: (result: ScaleResult) => number) =>
    sorted.map((result) => [elements(result), value(result)] as const);
  const panels: readonly Pick<Panel, "title" | "lines" | "notes">[] = [
    {
      title: "until all rules are in the kernel",
      lines: [
        {
          name: "nft -f, same script",
          color: GREY,
          dashed: true,
          points: line((r) => r.floor.time),
        },
        { name: "signpost", color: BLUE, points: line((r) => r.first.sync) },
      ],
      notes: PUBLISHED,
    },
    {
      title: "one endpoint changes: until the kernel has it",
      lines: [
        { name: "signpost, p99", color: BLUE, dashed: true, points: line((r) => r.change.p99) },
        { name: "signpost, p50", color: BLUE, points: line((r) => r.change.p50) },
      ],
    },
  ];
  const axes = { label: "Services and endpoints together", x: X, y: Y };
  return renderPanels(panels.map((panel) => ({ ...panel, ...axes })));
}

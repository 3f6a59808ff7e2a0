/**
 * The results as an SVG picture: two panels with logarithmic axes over the number of services.
 *
 * @module
 */
import { BLUE, GREY, type Panel, renderPanels } from "./panels.ts";
import type { SizeResult } from "./results.ts";

/** Draws the latency of changes and the time of the first sync. */
export function renderPlot(sizes: readonly SizeResult[]): string {
  const line = (value: (size: SizeResult) => number | undefined) =>
    sizes.flatMap((size) => {
      const y = value(size);
      return y === undefined ? [] : [[size.services, y] as const];
    });
  const panels: readonly Pick<Panel, "title" | "lines">[] = [
    {
      title: "endpoint change until visible in the kernel",
      lines: [
        { name: "signpost p99", color: BLUE, dashed: true, points: line((s) => s.steady?.p99) },
        { name: "signpost p50", color: BLUE, points: line((s) => s.steady?.p50) },
        {
          name: "nft -f, one element",
          color: GREY,
          dashed: true,
          points: line((s) => s.floor?.p50),
        },
      ],
    },
    {
      title: "first sync, after the lists are in",
      lines: [
        { name: "signpost", color: BLUE, points: line((s) => s.start?.firstSync) },
        {
          name: "nft -f, same script",
          color: GREY,
          dashed: true,
          points: line((s) => s.start?.nft),
        },
      ],
    },
  ];
  return renderPanels(panels.map((panel) => ({ ...panel, ...AXES })));
}

const AXES = {
  label: "services, 10 endpoints each",
  x: {
    range: [700, 45_000],
    ticks: [[1_000, "1,000"], [10_000, "10,000"], [30_000, "30,000"]],
  },
  y: {
    range: [4, 30_000],
    ticks: [[10, "10 ms"], [100, "100 ms"], [1_000, "1 s"], [10_000, "10 s"]],
  },
} as const;

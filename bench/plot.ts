/**
 * The results as an SVG picture: two panels with logarithmic axes over the number of services.
 *
 * @module
 */
import { BLUE, GREY, type Panel, RED, renderPanels } from "./panels.ts";
import type { SizeResult } from "./results.ts";

/** kube-proxy 1.36.2, nftables mode, minSyncPeriod 10 ms, on the same kind of machine with a real API server. */
export const KUBE_PROXY = {
  firstSync: [[1_000, 220], [10_000, 14_900]],
  p50: [[1_000, 142], [10_000, 7_067]],
  p99: [[1_000, 155], [10_000, 9_371]],
} as const;

/** Draws what both the sizes and the comparison have. */
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
        { name: "kube-proxy p99", color: RED, dashed: true, points: KUBE_PROXY.p99 },
        { name: "kube-proxy p50", color: RED, points: KUBE_PROXY.p50 },
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
        { name: "kube-proxy", color: RED, points: KUBE_PROXY.firstSync },
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

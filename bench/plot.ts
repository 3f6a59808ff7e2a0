/**
 * The results as an SVG picture: two panels with logarithmic axes over the number of services.
 *
 * @module
 */
import type { SizeResult } from "./results.ts";

/** A line of a panel: points of number of services and milliseconds. */
interface Line {
  readonly name: string;
  readonly color: string;
  readonly dashed?: boolean;
  readonly points: readonly (readonly [services: number, milliseconds: number])[];
}

interface Panel {
  readonly title: string;
  readonly lines: readonly Line[];
}

/** kube-proxy 1.36.2, nftables mode, minSyncPeriod 10 ms, on the same kind of machine with a real API server. */
const KUBE_PROXY = {
  firstSync: [[1_000, 220], [10_000, 14_900]],
  p50: [[1_000, 142], [10_000, 7_067]],
  p99: [[1_000, 155], [10_000, 9_371]],
} as const;

const BLUE = "#1f6feb";
const GREY = "#6e7781";
const RED = "#cf222e";

/** Draws what both the sizes and the comparison have. */
export function renderPlot(sizes: readonly SizeResult[]): string {
  const line = (value: (size: SizeResult) => number | undefined) =>
    sizes.flatMap((size) => {
      const y = value(size);
      return y === undefined ? [] : [[size.services, y] as const];
    });
  const panels: readonly Panel[] = [
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
  const drawn = panels.map((panel, i) =>
    `<g transform="translate(${i * PANEL.width},0)">\n${renderPanel(panel)}</g>\n`
  );
  const width = panels.length * PANEL.width;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${PANEL.height}" ` +
    `width="${width}" height="${PANEL.height}" font-family="system-ui, sans-serif" font-size="12">\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n${drawn.join("")}</svg>\n`;
}

const PANEL = { width: 460, height: 340, left: 62, right: 130, top: 40, bottom: 44 };
const X_RANGE = [700, 45_000] as const;
const Y_RANGE = [4, 30_000] as const;
const X_TICKS: readonly (readonly [number, string])[] = [
  [1_000, "1,000"],
  [10_000, "10,000"],
  [30_000, "30,000"],
];
const Y_TICKS: readonly (readonly [number, string])[] = [
  [10, "10 ms"],
  [100, "100 ms"],
  [1_000, "1 s"],
  [10_000, "10 s"],
];

/** A position on a logarithmic axis, between two pixels. */
function place(
  value: number,
  [low, high]: readonly [number, number],
  [from, to]: readonly [number, number],
): number {
  const part = Math.log(value / low) / Math.log(high / low);
  return Math.round((from + part * (to - from)) * 10) / 10;
}

const x = (services: number) => place(services, X_RANGE, [PANEL.left, PANEL.width - PANEL.right]);
const y = (time: number) => place(time, Y_RANGE, [PANEL.height - PANEL.bottom, PANEL.top]);

function renderPanel({ title, lines }: Panel): string {
  const [left, right] = [PANEL.left, PANEL.width - PANEL.right];
  const bottom = PANEL.height - PANEL.bottom;
  return [
    `<text x="${left}" y="22" font-weight="600" fill="#1f2328">${title}</text>`,
    ...Y_TICKS.map(([value, name]) =>
      `<path d="M${left} ${y(value)}H${right}" stroke="#d0d7de"/>` +
      `<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end" fill="${GREY}">${name}</text>`
    ),
    ...X_TICKS.map(([value, name]) =>
      `<path d="M${x(value)} ${PANEL.top}V${bottom}" stroke="#d0d7de"/>` +
      `<text x="${x(value)}" y="${bottom + 18}" text-anchor="middle" fill="${GREY}">${name}</text>`
    ),
    `<text x="${(left + right) / 2}" y="${bottom + 36}" text-anchor="middle" fill="${GREY}">` +
    `services, 10 endpoints each</text>`,
    ...renderLines(lines),
  ].map((part) => `  ${part}\n`).join("");
}

/** Least distance between the names at the ends of the lines. */
const LABEL_GAP = 14;

/** Lines with their names at their ends, moved apart where they would overlap. */
function renderLines(lines: readonly Line[]): string[] {
  const ends = lines.filter(({ points }) => points.length > 0)
    .map((line) => ({ line, end: y(line.points.at(-1)?.[1] ?? 1) }))
    .sort((a, b) => a.end - b.end);
  let free = -Infinity;
  return ends.flatMap(({ line, end }) => {
    const label = Math.max(end, free);
    free = label + LABEL_GAP;
    return renderLine(line, label);
  });
}

function renderLine({ name, color, dashed, points }: Line, label: number): string[] {
  const path = points.map(([services, time], i) =>
    `${i === 0 ? "M" : "L"}${x(services)} ${y(time)}`
  );
  const dash = dashed ? ' stroke-dasharray="5 4"' : "";
  return [
    `<path d="${path.join("")}" fill="none" stroke="${color}" stroke-width="2"${dash}/>`,
    ...points.map(([services, time]) =>
      `<circle cx="${x(services)}" cy="${y(time)}" r="3" fill="${color}"/>`
    ),
    `<text x="${PANEL.width - PANEL.right + 8}" y="${label + 4}" fill="${color}">${name}</text>`,
  ];
}

/**
 * Panels of an SVG picture: lines over a number, both axes logarithmic.
 *
 * @module
 */

/** A line of a panel. */
export interface Line {
  readonly name: string;
  readonly color: string;
  readonly dashed?: boolean;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** A logarithmic axis. */
export interface Axis {
  readonly range: readonly [from: number, to: number];
  readonly ticks: readonly (readonly [value: number, name: string])[];
}

/** A panel. */
export interface Panel {
  readonly title: string;
  /** Names the numbers below it. */
  readonly label: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly lines: readonly Line[];
}

export const BLUE = "#1f6feb";
export const GREY = "#6e7781";

const SIZE = { width: 460, height: 340, left: 62, right: 130, top: 40, bottom: 44 };

/** The picture: panels side by side. */
export function renderPanels(panels: readonly Panel[]): string {
  const drawn = panels.map((panel, i) =>
    `<g transform="translate(${i * SIZE.width},0)">\n${renderPanel(panel)}</g>\n`
  );
  const width = panels.length * SIZE.width;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${SIZE.height}" ` +
    `width="${width}" height="${SIZE.height}" font-family="system-ui, sans-serif" font-size="12">\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n${drawn.join("")}</svg>\n`;
}

/** A position on an axis, between two pixels. */
function place(
  value: number,
  { range: [low, high] }: Axis,
  [from, to]: readonly [number, number],
): number {
  const part = Math.log(value / low) / Math.log(high / low);
  return Math.round((from + part * (to - from)) * 10) / 10;
}

const xOf = ({ x }: Panel) => (value: number) =>
  place(value, x, [SIZE.left, SIZE.width - SIZE.right]);
const yOf = ({ y }: Panel) => (value: number) =>
  place(value, y, [SIZE.height - SIZE.bottom, SIZE.top]);

function renderPanel(panel: Panel): string {
  const [left, right] = [SIZE.left, SIZE.width - SIZE.right];
  const bottom = SIZE.height - SIZE.bottom;
  const [x, y] = [xOf(panel), yOf(panel)];
  return [
    `<text x="${left}" y="22" font-weight="600" fill="#1f2328">${panel.title}</text>`,
    ...panel.y.ticks.map(([value, name]) =>
      `<path d="M${left} ${y(value)}H${right}" stroke="#d0d7de"/>` +
      `<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end" fill="${GREY}">${name}</text>`
    ),
    ...panel.x.ticks.map(([value, name]) =>
      `<path d="M${x(value)} ${SIZE.top}V${bottom}" stroke="#d0d7de"/>` +
      `<text x="${x(value)}" y="${bottom + 18}" text-anchor="middle" fill="${GREY}">${name}</text>`
    ),
    `<text x="${(left + right) / 2}" y="${bottom + 36}" text-anchor="middle" fill="${GREY}">` +
    `${panel.label}</text>`,
    ...renderLines(panel),
  ].map((part) => `  ${part}\n`).join("");
}

/** Least distance between the names at the ends of the lines. */
const LABEL_GAP = 14;

/** Lines with their names at their ends, moved apart where lines that end together would have them overlap. */
function renderLines(panel: Panel): readonly string[] {
  const ends = panel.lines.flatMap((line) => {
    const [x, y] = line.points.at(-1) ?? [];
    return x === undefined || y === undefined ? [] : [{ line, x, end: yOf(panel)(y) }];
  }).sort((a, b) => a.end - b.end);
  const free = new Map<number, number>();
  return ends.flatMap(({ line, x, end }) => {
    const label = Math.max(end, free.get(x) ?? -Infinity);
    free.set(x, label + LABEL_GAP);
    return renderLine(panel, { line, label: { x: xOf(panel)(x) + 8, y: label + 4 } });
  });
}

function renderLine(
  panel: Panel,
  { line: { name, color, dashed, points }, label }: {
    readonly line: Line;
    readonly label: { readonly x: number; readonly y: number };
  },
): string[] {
  const [x, y] = [xOf(panel), yOf(panel)];
  const path = points.map((point, i) => `${i === 0 ? "M" : "L"}${x(point[0])} ${y(point[1])}`);
  const dash = dashed ? ' stroke-dasharray="5 4"' : "";
  return [
    `<path d="${path.join("")}" fill="none" stroke="${color}" stroke-width="2"${dash}/>`,
    ...points.map((point) =>
      `<circle cx="${x(point[0])}" cy="${y(point[1])}" r="3" fill="${color}"/>`
    ),
    `<text x="${label.x}" y="${label.y}" fill="${color}">${name}</text>`,
  ];
}

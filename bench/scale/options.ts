/**
 * The command line of `deno task bench scale`.
 *
 * @module
 */
import { parseArgs } from "node:util";
import type { Shape } from "./results.ts";

/** The shapes and parts to measure. */
export interface ScaleOptions {
  readonly help: boolean;
  readonly shapes: readonly Shape[];
  /** Lone changes of each shape. */
  readonly changes: number;
  /** Shapes with at least so many endpoints are tried in the unit's memory limit. */
  readonly limitedFrom: number;
  /** The paths of results, page and picture; `undefined`: none are written. */
  readonly output:
    | { readonly json: string; readonly page: string }
    | undefined;
}

/** The help text. */
export const SCALE_HELP =
  `Measures clusters of the sizes that people have: deno task bench scale [options]   (needs root)

  --shapes LIST      services x endpoints of each: 5006x50,10000x10; default: all of them
  --short            small shapes, a few seconds, writes nothing: proves that it runs
  --no-limit         do not try the memory limit of the unit
  --no-write         leave bench/scale.json and bench/scale.md as they are
  --render           measure nothing, write the page and the picture from bench/scale.json
`;

/** The first one is what the others are held against. */
const SHAPES: readonly Shape[] = [
  { services: 1_000, endpoints: 10 },
  { services: 10_000, endpoints: 10 },
  { services: 5_006, endpoints: 50 },
  { services: 44_125, endpoints: 1 },
  { services: 30_000, endpoints: 10 },
  { services: 100_000, endpoints: 1 },
  { services: 100_000, endpoints: 10 },
];

const place = (path: string) => new URL(`../../${path}`, import.meta.url).pathname;

const FULL: ScaleOptions = {
  help: false,
  shapes: SHAPES,
  changes: 60,
  limitedFrom: 1_000_000,
  output: {
    json: place("bench/scale.json"),
    page: place("bench/scale.md"),
  },
};

const SHORT: ScaleOptions = {
  ...FULL,
  shapes: [{ services: 20, endpoints: 10 }, { services: 100, endpoints: 2 }],
  changes: 4,
  limitedFrom: 200,
  output: undefined,
};

/** The request of the command line. */
export interface ScaleRun extends ScaleOptions {
  /** Nothing is measured. */
  readonly render: boolean;
}

/**
 * Reads the command line.
 *
 * @throws {Error} where it cannot be understood
 */
export function readScaleOptions(argv: readonly string[]): ScaleRun {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      help: { type: "boolean", short: "h" },
      short: { type: "boolean" },
      shapes: { type: "string" },
      "no-limit": { type: "boolean" },
      "no-write": { type: "boolean" },
      render: { type: "boolean" },
    },
  });
  const base = values.short ? SHORT : FULL;
  return {
    ...base,
    help: values.help ?? false,
    render: values.render ?? false,
    ...(values.shapes !== undefined && { shapes: values.shapes.split(",").map(readShape) }),
    ...(values["no-limit"] && { limitedFrom: Infinity }),
    ...(values["no-write"] && { output: undefined }),
  };
}

function readShape(text: string): Shape {
  const [, services, endpoints] = /^(\d+)x(\d+)$/.exec(text) ?? [];
  if (!services || !endpoints || Number(services) === 0 || Number(endpoints) === 0) {
    throw new Error(`"${text}" is no shape such as 10000x10`);
  }
  return { services: Number(services), endpoints: Number(endpoints) };
}

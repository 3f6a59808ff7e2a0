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
  /** True if `bench/scale.md` gets the results. */
  readonly writes: boolean;
}

/** The help text. */
export const SCALE_HELP =
  `Measures clusters of the sizes that people have: deno task bench scale [options]   (needs root)

  --shapes LIST      services x endpoints of each: 5006x50,10000x10; default: all of them
  --short            small shapes, a few seconds, writes nothing: proves that it runs
  --no-limit         do not try the memory limit of the unit
  --no-write         leave bench/scale.md as it is
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

const FULL: ScaleOptions = {
  help: false,
  shapes: SHAPES,
  changes: 60,
  limitedFrom: 1_000_000,
  writes: true,
};

const SHORT: ScaleOptions = {
  ...FULL,
  shapes: [{ services: 20, endpoints: 10 }, { services: 100, endpoints: 2 }],
  changes: 4,
  limitedFrom: 200,
  writes: false,
};

/**
 * Reads the command line.
 *
 * @throws {Error} where it cannot be understood
 */
export function readScaleOptions(argv: readonly string[]): ScaleOptions {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      help: { type: "boolean", short: "h" },
      short: { type: "boolean" },
      shapes: { type: "string" },
      "no-limit": { type: "boolean" },
      "no-write": { type: "boolean" },
    },
  });
  const base = values.short ? SHORT : FULL;
  return {
    ...base,
    help: values.help ?? false,
    ...(values.shapes !== undefined && { shapes: values.shapes.split(",").map(readShape) }),
    ...(values["no-limit"] && { limitedFrom: Infinity }),
    ...(values["no-write"] && { writes: false }),
  };
}

function readShape(text: string): Shape {
  const [, services, endpoints] = /^(\d+)x(\d+)$/.exec(text) ?? [];
  if (!services || !endpoints || Number(services) === 0 || Number(endpoints) === 0) {
    throw new Error(`"${text}" is not a shape such as 10000x10`);
  }
  return { services: Number(services), endpoints: Number(endpoints) };
}

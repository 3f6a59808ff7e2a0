/**
 * The bench's command line.
 *
 * @module
 */
import { parseArgs } from "node:util";

/** How much is measured. */
export interface Options {
  readonly help: boolean;
  /** Numbers of Services. */
  readonly sizes: readonly number[];
  readonly peerSizes: readonly number[];
  /** Endpoints of each Service. */
  readonly endpoints: number;
  /** Path of a kube-proxy binary to compare with. */
  readonly peer?: string;
  /** How often a start is repeated. */
  readonly runs: number;
  /** Changes at two a second. */
  readonly changes: number;
  /** Changes whose work is counted. */
  readonly counted: number;
  /** Seconds of 200 changes a second. */
  readonly burst: number;
  /** Seconds of ten changes a second for CPU. */
  readonly cpuSeconds: number;
  /** True if the pages get the results. */
  readonly writes: boolean;
}

/** The help text. */
export const HELP = `Measures signpost on this machine: deno task bench [options]   (needs root)

  --short            a few seconds, 100 services, writes nothing: proves that it runs
  --sizes LIST       numbers of services; default: 1000,10000,30000, with --peer 100,1000,10000
  --peer PATH        a kube-proxy binary beside signpost
  --no-write         leave bench/README.md, and with --peer bench/peer.json, docs/performance.md and README.md, unchanged

deno task bench --hostile [--beside PATH] measures how the work grows with hostile objects (two minutes), then what
attacks do to probes, changes and memory (eight minutes), also for the daemon of another checkout.
deno task bench scale [options] measures clusters of the sizes that people have; see its --help.
`;

const FULL: Options = {
  help: false,
  sizes: [1_000, 10_000, 30_000],
  peerSizes: [100, 1_000, 10_000],
  endpoints: 10,
  runs: 5,
  // A minute at two a second has each kind of regular work once, such as the state file.
  changes: 120,
  counted: 200,
  burst: 10,
  cpuSeconds: 30,
  writes: true,
};

const SHORT: Options = {
  ...FULL,
  sizes: [100],
  peerSizes: [100],
  runs: 1,
  changes: 4,
  counted: 20,
  burst: 1,
  cpuSeconds: 1,
  writes: false,
};

/**
 * Reads the command line.
 *
 * @throws {Error} if it cannot be understood
 */
export function readOptions(argv: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      help: { type: "boolean", short: "h" },
      short: { type: "boolean" },
      sizes: { type: "string" },
      "no-write": { type: "boolean" },
      peer: { type: "string" },
    },
  });
  const sizes = values.sizes?.split(",").map(readNumber);
  return {
    ...values.short ? SHORT : FULL,
    ...values.help && { help: true },
    ...sizes !== undefined && { sizes, peerSizes: sizes },
    ...values.peer !== undefined && { peer: values.peer },
    ...values["no-write"] && { writes: false },
  };
}

function readNumber(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) {
    throw new Error(`"${text}" is not a whole number above 0`);
  }
  return value;
}

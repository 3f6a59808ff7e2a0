/**
 * The bench's command line.
 *
 * @module
 */
import { parseArgs } from "node:util";
import type { LocalhostOptions } from "./parts/localhost.ts";
import type { PauseOptions } from "./parts/pause.ts";

/** The parts that can be run by themselves. */
export const PARTS = [
  "start",
  "changes",
  "work",
  "cpu",
  "pause",
  "wide",
  "request",
  "packets",
  "counters",
  "iptables",
  "localhost",
] as const;

/** Name of a part. */
export type Part = typeof PARTS[number];

/** The parts to run, and how long. */
export interface Options {
  readonly help: boolean;
  readonly parts: ReadonlySet<Part>;
  /** Numbers of Services. */
  readonly sizes: readonly number[];
  readonly endpoints: number;
  /** Path of a kube-proxy binary to compare with. */
  readonly peer?: string;
  readonly peerSizes: readonly number[];
  /** Numbers of Services for the packet path. */
  readonly packetSizes: readonly number[];
  /** Numbers of Services for iptables; the nft backend is measured with the first one only. */
  readonly iptablesSizes: readonly number[];
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
  /** Changes of the part `pause`: lone ones, and at 50 a second. */
  readonly pause: PauseOptions;
  readonly localhost: LocalhostOptions;
  readonly wideEndpoints: number;
  readonly packetRounds: number;
  /** Changes in iptables mode. */
  readonly iptablesChanges: number;
  /** The paths of results and plot; `undefined`: none are written. */
  readonly output:
    | { readonly json: string; readonly plot: string; readonly page: string }
    | undefined;
}

/** The help text. */
export const HELP = `Measures signpost on this machine: deno task bench [options]   (needs root)

  --short            a few seconds, 100 services, writes nothing: proves that it runs
  --parts LIST       of ${PARTS.join(", ")}; default: all
  --sizes LIST       numbers of services; default: 1000,10000,30000
  --peer PATH        a kube-proxy binary beside signpost, at 100, 1000 and 10000 services; no other parts.
                     Writes bench/peer.json and the tables of docs/performance.md and README.md
  --no-write         leave bench/results.json, bench/README.md, bench/peer.json, docs/data/bench.svg and docs/performance.md unchanged

deno task bench --hostile [--beside PATH] measures how the work grows with hostile objects (two minutes), then what
attacks do to probes, changes and memory (eight minutes), also for the daemon of another checkout.
deno task bench scale [options] measures clusters of the sizes that people have; see its --help.
`;

const FULL: Options = {
  help: false,
  parts: new Set(PARTS),
  sizes: [1_000, 10_000, 30_000],
  endpoints: 10,
  peerSizes: [100, 1_000, 10_000],
  packetSizes: [1, 10_000, 30_000],
  iptablesSizes: [1_000, 10_000],
  runs: 5,
  changes: 60,
  counted: 200,
  burst: 10,
  cpuSeconds: 30,
  pause: { lone: 100, burst: 1_000 },
  localhost: { bytes: 2_000_000_000, rounds: 5, listeners: 1_000 },
  wideEndpoints: 10_000,
  packetRounds: 15,
  iptablesChanges: 10,
  output: {
    json: new URL("results.json", import.meta.url).pathname,
    plot: new URL("../docs/data/bench.svg", import.meta.url).pathname,
    page: new URL("README.md", import.meta.url).pathname,
  },
};

const SHORT: Options = {
  ...FULL,
  sizes: [100],
  peerSizes: [100],
  packetSizes: [100],
  iptablesSizes: [100],
  runs: 1,
  changes: 4,
  counted: 20,
  burst: 1,
  cpuSeconds: 1,
  pause: { lone: 4, burst: 20 },
  localhost: { bytes: 100_000_000, rounds: 1, listeners: 100 },
  wideEndpoints: 1_000,
  packetRounds: 1,
  iptablesChanges: 2,
  output: undefined,
};

/**
 * Reads the command line.
 *
 * @throws {Error} where it cannot be understood
 */
export function readOptions(argv: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      help: { type: "boolean", short: "h" },
      short: { type: "boolean" },
      parts: { type: "string" },
      sizes: { type: "string" },
      "no-write": { type: "boolean" },
      peer: { type: "string" },
    },
  });
  const base = values.short ? SHORT : FULL;
  return {
    ...base,
    help: values.help ?? false,
    ...(values.parts !== undefined && { parts: readParts(values.parts) }),
    ...(values.sizes !== undefined && sizes(values.sizes.split(",").map(readNumber))),
    ...(values.peer !== undefined && { peer: values.peer }),
    ...(values["no-write"] && { output: undefined }),
  };
}

function sizes(list: readonly number[]): Partial<Options> {
  return { sizes: list, peerSizes: list, packetSizes: list, iptablesSizes: list };
}

function readParts(text: string): ReadonlySet<Part> {
  return new Set(
    text.split(",").map((name) => {
      const part = PARTS.find((each) => each === name);
      if (!part) throw new Error(`there is no part "${name}": ${PARTS.join(", ")}`);
      return part;
    }),
  );
}

function readNumber(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) {
    throw new Error(`"${text}" is no whole number above 0`);
  }
  return value;
}

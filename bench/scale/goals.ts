/**
 * The goals of the scale, and whether they are met.
 *
 * @module
 */
import { milliseconds } from "../report.ts";
import type { ScaleResult, ScaleResults } from "./results.ts";

/** One goal for one shape. */
export interface Verdict {
  /** The measured value, as text. */
  readonly value: string;
  /** The goal, as text. */
  readonly goal: string;
  readonly met: boolean;
}

/** A goal. */
export interface Goal {
  readonly name: string;
  /** The limit behind a missed goal, for the page. */
  readonly reason: string;
  /** `undefined`: it has none for this shape, or it was not measured. */
  readonly judge: (result: ScaleResult, all: ScaleResults) => Verdict | undefined;
}

/** With fewer endpoints, what a sync takes besides `nft` is not worth a goal. */
const SOME_ENDPOINTS = 100_000;

/** From so many endpoints on, the first sync is to be faster than `nft -f` of everything at once. */
const MANY_ENDPOINTS = 250_000;

/** Bytes that an endpoint and a Service may take. */
const PER_ENDPOINT = 500;
const PER_SERVICE = 3_000;

/** Milliseconds. */
const LONGEST_FIRST_SYNC = 12_000;
const LONGEST_REPAIR = 2_000;
/** Of work until an answer, in the time of a processor: a kubelet waits for 1 s. */
const LONGEST_BLOCK = 250;
const LONGEST_BLOCK_LARGE = 1_000;
/** Times as long as with the first shape. */
const LONGEST_CHANGE = 2;
/** Bytes. */
const NFT_PEAK = 150e6;
const NFT_PEAK_LARGE = 300e6;
/** The largest cluster that is known has 44,125 Services. */
const MANY_SERVICES = 50_000;
/** Times the steady size. */
const OWN_PEAK = 2;

/** All goals, in the order of the page. */
export const GOALS: readonly Goal[] = [
  {
    name: "first sync / `nft -f` of everything at once",
    reason: "signpost works Services out on one processor, beside two nft that take one each",
    judge: ({ services, endpoints, first, floor }) =>
      services * endpoints < SOME_ENDPOINTS ? undefined : atMost(first.sync / floor.time, {
        limit: services * endpoints >= MANY_ENDPOINTS ? 1 : 1.3,
        print: times,
      }),
  },
  {
    name: "first sync of 1,000,000 endpoints",
    reason:
      "what nft takes of a processor for all portions, and signpost beside it, on two processors",
    judge: ({ services, endpoints, first }) =>
      services * endpoints < 1_000_000
        ? undefined
        : atMost(first.sync, { limit: LONGEST_FIRST_SYNC, print: milliseconds }),
  },
  {
    name: "lone change, p50 / that of the first shape",
    reason: "a garbage collection that meets changes is longer with more objects",
    judge: ({ change }, { shapes: [reference] }) =>
      reference &&
      atMost(change.p50 / reference.change.p50, { limit: LONGEST_CHANGE, print: times }),
  },
  {
    name: "foreign change repaired, the slowest",
    reason: "a round that is under way ends first",
    judge: ({ drift }) =>
      atMost(Math.max(...drift.map(({ repaired }) => repaired)), {
        limit: LONGEST_REPAIR,
        print: milliseconds,
      }),
  },
  {
    name: "work until the health server answers",
    reason:
      "V8, which moves objects at one go, and marks what is left at one go where it is late; all other work is in turns of 20 ms",
    judge: ({ services, endpoints, silence }) =>
      atMost(Math.max(silence.first.busy, silence.restart.busy, silence.full.busy), {
        limit: services * endpoints < 1_000_000 ? LONGEST_BLOCK : LONGEST_BLOCK_LARGE,
        print: milliseconds,
      }),
  },
  {
    name: "nft's peak, first sync and restart",
    reason: "nft lists no part of a set, and takes 2 kB for each element",
    judge: ({ services, first, restart }) =>
      atMost(Math.max(first.peaks.child, restart.peaks.child), {
        limit: services <= MANY_SERVICES ? NFT_PEAK : NFT_PEAK_LARGE,
        print: megabytes,
      }),
  },
  {
    name: "signpost's peak / its steady size",
    reason:
      "a restart has the objects of the whole table beside the state, and V8 collects when half as much has come again",
    judge: ({ first, restart, steady }) =>
      atMost(Math.max(first.peaks.own, restart.peaks.own) / steady.own, {
        limit: OWN_PEAK,
        print: times,
      }),
  },
  {
    name: "signpost's steady size over its base",
    reason: "V8 keeps what it has taken from the system for a while",
    judge: ({ services, endpoints, steady }, { base }) =>
      atMost(steady.own - base, {
        limit: services * endpoints * PER_ENDPOINT + services * PER_SERVICE,
        print: megabytes,
      }),
  },
  {
    name: "within the unit's MemoryMax",
    reason:
      "signpost's peak at the restart, nft's, the kernel's elements and cached files together",
    judge: ({ limit }) =>
      limit && {
        value: limit.done === "restart" && limit.killed === 0
          ? `held, ${megabytes(limit.peak)} at most (${
            megabytes(limit.firstPeak)
          } at the first start)`
          : limit.done === "nothing"
          ? `no first sync, ${limit.killed} processes killed`
          : `first start ${megabytes(limit.firstPeak)}; restart: ${limit.killed} processes killed`,
        goal: megabytes(limit.limit),
        met: limit.done === "restart" && limit.killed === 0,
      },
  },
];

function atMost(
  value: number,
  { limit, print }: { readonly limit: number; readonly print: (value: number) => string },
): Verdict {
  return { value: print(value), goal: print(limit), met: value <= limit };
}

function times(value: number): string {
  return `${value.toFixed(2)} x`;
}

function megabytes(value: number): string {
  return `${Math.round(value / 1e6).toLocaleString("en")} MB`;
}

/**
 * The exponent of growth: the slope of the values over the sizes, both as logarithms, by least squares.
 * 1 is linear. `NaN` of fewer than two sizes.
 */
export function exponent(points: readonly (readonly [size: number, value: number])[]): number {
  const logs = points.map(([size, value]) => [Math.log(size), Math.log(value)] as const);
  const mean = (of: 0 | 1) => logs.reduce((sum, each) => sum + each[of], 0) / logs.length;
  const [x, y] = [mean(0), mean(1)];
  const covariance = logs.reduce((sum, each) => sum + (each[0] - x) * (each[1] - y), 0);
  return covariance / logs.reduce((sum, each) => sum + (each[0] - x) ** 2, 0);
}

/**
 * The parts of prom-client that signpost uses, each from its own file: the package's entry point also
 * loads what reads the process and pushes metrics, which costs 40 ms and 7 MB at the start.
 *
 * @module
 */
import type * as client from "prom-client";
import bucketGenerators from "prom-client/lib/bucketGenerators.js";
import counter from "prom-client/lib/counter.js";
import gauge from "prom-client/lib/gauge.js";
import histogram from "prom-client/lib/histogram.js";
import registry from "prom-client/lib/registry.js";

/** A value that only grows. */
export const Counter: typeof client.Counter = counter;
/** A value that comes and goes. */
export const Gauge: typeof client.Gauge = gauge;
/** How often values fell into each bucket. */
export const Histogram: typeof client.Histogram = histogram;
/** Metrics that are printed together. */
export const Registry: typeof client.Registry = registry;

/** Bucket limits that grow by a factor, and by a step. */
export const { exponentialBuckets, linearBuckets }: Pick<
  typeof client,
  "exponentialBuckets" | "linearBuckets"
> = bucketGenerators;

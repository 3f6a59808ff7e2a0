/**
 * Makes metrics that belong to one registry, and what their recorders share.
 *
 * @module
 */
import type { CounterMetric, Definition, GaugeMetric, Sample } from "../../backend/backend.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import type * as client from "prom-client";
import bucketGenerators from "prom-client/lib/bucketGenerators.js";
import counter from "prom-client/lib/counter.js";
import gauge from "prom-client/lib/gauge.js";
import histogram from "prom-client/lib/histogram.js";
import registry from "prom-client/lib/registry.js";

// Each part comes from its own file: the package's entry point costs 40 ms and 7 MB more at the start.
/** A value that only grows. */
export const Counter: typeof client.Counter = counter;
/** A value that comes and goes. */
export const Gauge: typeof client.Gauge = gauge;
/** Counts values by bucket. */
export const Histogram: typeof client.Histogram = histogram;
/** Metrics that are printed together. */
export const Registry: typeof client.Registry = registry;

/** Bucket limits that grow by a factor, and by a step. */
export const { exponentialBuckets, linearBuckets }: Pick<
  typeof client,
  "exponentialBuckets" | "linearBuckets"
> = bucketGenerators;

/** Makes metrics of one registry. */
export interface MetricFactory {
  counter<L extends string>(definition: Definition, labels: readonly L[]): client.Counter<L>;
  gauge<L extends string>(definition: Definition, labels: readonly L[]): client.Gauge<L>;
  histogram<L extends string>(
    definition: Definition,
    options: { readonly labels: readonly L[]; readonly buckets: readonly number[] },
  ): client.Histogram<L>;
  /** A gauge that is read when it is asked for; `undefined`: it is left out. */
  readGauge(definition: Definition, read: () => number | undefined): void;
  /** A gauge of which all values are read when it is asked for. */
  readGauges(
    definition: Definition,
    options: Pick<GaugeMetric, "labels" | "read">,
  ): void;
  /** Makes a counter of which all values are read when it is asked for. */
  readCounters(
    definition: Definition,
    options: Pick<CounterMetric, "labels" | "read">,
  ): void;
}

/** Makes metrics that belong to this registry, and to no other. */
export function metricFactory(registry: client.Registry): MetricFactory {
  const registers = [registry];
  return {
    counter: ([name, help], labelNames) => new Counter({ name, help, labelNames, registers }),
    gauge: ([name, help], labelNames) => new Gauge({ name, help, labelNames, registers }),
    histogram: ([name, help], { labels, buckets }) =>
      new Histogram({ name, help, labelNames: labels, buckets: [...buckets], registers }),
    readGauge: ([name, help], read) => {
      const collect = () => {
        const value = read();
        if (value === undefined) gauge.remove();
        else gauge.set(value);
      };
      const gauge = new Gauge({ name, help, registers, collect });
    },
    readGauges: ([name, help], { labels: labelNames, read }) => {
      const collect = () => {
        gauge.reset();
        for (const { labels, value } of read()) gauge.set(labels, value);
      };
      const gauge = new Gauge({ name, help, labelNames, registers, collect });
    },
    readCounters: ([name, help], { labels: labelNames, read }) => {
      const collect = async () => {
        const samples = await read();
        counter.reset();
        for (const { labels, value } of samples) counter.inc(labels, value);
      };
      const counter = new Counter({ name, help, labelNames, registers, collect });
    },
  };
}

/** The labels `ip_family` of these families. */
export function familyLabels(families: readonly Family[]): { readonly ip_family: string }[] {
  return families.map((family) => ({ ip_family: FAMILY_NAMES[family] }));
}

/**
 * The text of a counter that may have very many values. All at once would keep the event loop for 7 ms for each
 * thousand of them.
 *
 * @param options.batches what is to be rendered at one go, with pauses between
 */
export async function renderCounter(
  [name, help]: Definition,
  { labels: labelNames, batches }: {
    readonly labels: readonly string[];
    readonly batches: AsyncIterable<readonly Sample[]>;
  },
): Promise<string> {
  const render = (samples: readonly Sample[]) => {
    const registry = new Registry();
    const counter = new Counter({ name, help, labelNames, registers: [registry] });
    for (const { labels, value } of samples) counter.inc(labels, value);
    return registry.getSingleMetricAsString(name);
  };
  const head = await render([]);
  const parts = [head];
  for await (const batch of batches) parts.push((await render(batch)).slice(head.length));
  return parts.join("");
}

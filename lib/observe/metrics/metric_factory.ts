/** Makes metrics of one registry. */
import type { Definition, ReadMetric, Sample } from "../../backend/metrics.ts";
import type * as client from "prom-client";
import bucketGenerators from "prom-client/lib/bucketGenerators.js";
import counter from "prom-client/lib/counter.js";
import gauge from "prom-client/lib/gauge.js";
import histogram from "prom-client/lib/histogram.js";
import registry from "prom-client/lib/registry.js";

// Each part comes from its own file: the package's entry point costs 40 ms and 7 MB more at the start.
const Counter: typeof client.Counter = counter;
const Gauge: typeof client.Gauge = gauge;
const Histogram: typeof client.Histogram = histogram;
export const Registry: typeof client.Registry = registry;

/** Returns bucket limits that grow by a factor, and by a step. */
export const { exponentialBuckets, linearBuckets }: Pick<
  typeof client,
  "exponentialBuckets" | "linearBuckets"
> = bucketGenerators;

/** Makes metrics that belong to this registry, and to no other. */
export class MetricFactory {
  readonly #registers: client.Registry[];

  constructor(registry: client.Registry) {
    this.#registers = [registry];
  }

  counter<L extends string>(
    [name, help]: Definition,
    labelNames: readonly L[] = [],
  ): client.Counter<L> {
    return new Counter({ name, help, labelNames, registers: this.#registers });
  }

  gauge<L extends string>(
    [name, help]: Definition,
    labelNames: readonly L[] = [],
  ): client.Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: this.#registers });
  }

  histogram<L extends string>(
    [name, help]: Definition,
    { labels, buckets }: { readonly labels: readonly L[]; readonly buckets: readonly number[] },
  ): client.Histogram<L> {
    return new Histogram({
      name,
      help,
      labelNames: labels,
      buckets: [...buckets],
      registers: this.#registers,
    });
  }

  /** Makes a gauge that is read at each scrape; `undefined`: it is left out. */
  readGauge([name, help]: Definition, read: () => number | undefined): void {
    const collect = () => {
      const value = read();
      if (value === undefined) gauge.remove();
      else gauge.set(value);
    };
    const gauge = new Gauge({ name, help, registers: this.#registers, collect });
  }

  /** Makes a metric whose values are all read at each scrape. */
  reading({ type, definition: [name, help], labels: labelNames, read }: ReadMetric): void {
    const collect = async () => {
      const samples = await read();
      metric.reset();
      for (const { labels, value } of samples) metric.inc(labels, value);
    };
    const options = { name, help, labelNames, registers: this.#registers, collect };
    const metric = type === "gauge" ? new Gauge(options) : new Counter(options);
  }
}

/** Renders a counter of very many values in batches: a thousand values keep the event loop for 7 ms. */
export async function renderCounter(
  definition: Definition,
  labels: readonly string[],
  batches: AsyncIterable<readonly Sample[]>,
): Promise<string> {
  const [name] = definition;
  const render = (samples: readonly Sample[]) => {
    const registry = new Registry();
    const counter = new MetricFactory(registry).counter(definition, labels);
    for (const { labels, value } of samples) counter.inc(labels, value);
    return registry.getSingleMetricAsString(name);
  };
  const head = await render([]);
  const parts = [head];
  for await (const batch of batches) parts.push((await render(batch)).slice(head.length));
  return parts.join("");
}

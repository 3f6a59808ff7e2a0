/** Keeps metrics, and prints them in Prometheus' text format, version 0.0.4. */
import type { Definition, ReadMetric, Sample } from "../../backend/metrics.ts";

/** The labels of a value, in the order in which they are printed. */
type Labels<L extends string = string> = Readonly<Record<L, string>>;

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Metrics that are printed together, in the order of their definition. */
export class Registry {
  readonly #texts: (() => string | Promise<string>)[] = [];

  /** Makes a counter. Without labels it starts at 0. */
  counter<L extends string = never>(
    definition: Definition,
    labels: readonly L[] = [],
  ): Counter<L> {
    const counter = new Counter<L>();
    if (labels.length === 0) counter.values.set("", 0);
    this.#print("counter", definition, () => counter.values);
    return counter;
  }

  /** Makes a histogram with these limits of its buckets. */
  histogram<L extends string>(definition: Definition, buckets: readonly number[]): Histogram<L> {
    const [name] = definition;
    const histogram = new Histogram<L>(buckets);
    this.#texts.push(() => text("histogram", definition, histogram.lines(name)));
    return histogram;
  }

  /** Makes a gauge that is read at each scrape; `undefined`: it is left out. */
  readGauge(definition: Definition, read: () => number | undefined): void {
    this.#print("gauge", definition, () => {
      const value = read();
      return value === undefined ? [] : [["", value]];
    });
  }

  /** Makes a metric whose values are all read at each scrape. */
  reading({ type, definition, read }: ReadMetric): void {
    this.#print(type, definition, async () => printed(await read()));
  }

  /** Returns the text of all metrics. */
  async text(): Promise<string> {
    return `${(await Promise.all(this.#texts.map((text) => text()))).join("\n\n")}\n`;
  }

  #print(type: string, definition: Definition, read: () => Values | Promise<Values>): void {
    const [name] = definition;
    this.#texts.push(async () => text(type, definition, lines(name, await read())));
  }
}

/** Values by their printed labels. */
type Values = Iterable<readonly [labels: string, value: number]>;

/** A value that only grows. */
class Counter<L extends string> {
  readonly values = new Map<string, number>();

  inc(labels: Labels<L>, more = 1): void {
    const key = print(labels);
    this.values.set(key, (this.values.get(key) ?? 0) + more);
  }
}

/** Counts values by size. */
class Histogram<L extends string> {
  readonly #buckets: readonly number[];
  readonly #series = new Map<string, { counts: number[]; sum: number; count: number }>();

  constructor(buckets: readonly number[]) {
    this.#buckets = buckets;
  }

  observe(labels: Labels<L>, value: number): void {
    const key = print(labels);
    const series = this.#series.get(key) ??
      { counts: this.#buckets.map(() => 0), sum: 0, count: 0 };
    const index = this.#buckets.findIndex((limit) => value <= limit);
    if (index >= 0) series.counts[index]! += 1;
    series.sum += value;
    series.count += 1;
    this.#series.set(key, series);
  }

  /** Yields the lines of all buckets, sums and counts. */
  *lines(name: string): Generator<string> {
    for (const [labels, { counts, sum, count }] of this.#series) {
      let below = 0;
      const buckets = this.#buckets.map((limit, i) => [`${limit}`, below += counts[i] ?? 0]);
      for (const [limit, value] of [...buckets, ["+Inf", count]]) {
        const rest = labels === "" ? "}" : `,${labels.slice(1)}`;
        yield `${name}_bucket{le="${limit}"${rest} ${value}`;
      }
      yield `${name}_sum${labels} ${sum}`;
      yield `${name}_count${labels} ${count}`;
    }
  }
}

/** Returns the text of a counter that may have very many values, in batches with pauses between. */
export async function counterText(
  definition: Definition,
  batches: AsyncIterable<readonly Sample[]>,
): Promise<string> {
  const [name] = definition;
  const parts: string[] = [];
  for await (const batch of batches) {
    for (const line of lines(name, printed(batch))) parts.push(line);
  }
  return text("counter", definition, parts);
}

function text(type: string, [name, help]: Definition, lines: Iterable<string>): string {
  return [`# HELP ${name} ${escape(help)}`, `# TYPE ${name} ${type}`, ...lines].join("\n");
}

function* lines(name: string, values: Values): Generator<string> {
  for (const [labels, value] of values) yield `${name}${labels} ${value}`;
}

function* printed(samples: Iterable<Sample>): Generator<readonly [string, number]> {
  for (const { labels, value } of samples) yield [print(labels), value];
}

/** Returns `{code="200"}`; `""` without labels. */
function print(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) =>
    `${name}="${escape(value).replaceAll('"', '\\"')}"`
  );
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

/** Returns so many limits, each the one before times a factor. */
export function exponentialBuckets(start: number, factor: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => start * factor ** i);
}

/** Returns so many limits, each the one before plus a step. */
export function linearBuckets(start: number, step: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => start + i * step);
}

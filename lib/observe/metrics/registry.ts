/** Keeps metrics, and prints them in Prometheus' text format, version 0.0.4. */
import type { Definition, Reading, ReadMetric, Sample } from "../../backend/metrics.ts";

/** The labels of a value, in the order in which they are printed. */
type Labels<L extends string = string> = Readonly<Record<L, string>>;

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** A value that only grows. */
interface Counter<L extends string> {
  inc(labels: Labels<L>, more?: number): void;
}

/** Counts values by size. */
interface Histogram<L extends string> {
  observe(labels: Labels<L>, value: number): void;
}

/** Metrics that are printed together, in the order of their definition. */
export class Registry {
  readonly #texts: (() => string | Promise<string>)[] = [];

  counter<L extends string = never>(definition: Definition): Counter<L> {
    const [name] = definition;
    const values = new Map<string, number>();
    const lines = () => values.entries().map(([labels, value]) => `${name}${labels} ${value}`);
    this.#texts.push(() => text("counter", definition, lines()));
    return {
      inc(labels, more = 1) {
        const key = print(labels);
        values.set(key, (values.get(key) ?? 0) + more);
      },
    };
  }

  /** Makes a histogram. @param buckets their upper limits */
  histogram<L extends string>(definition: Definition, buckets: readonly number[]): Histogram<L> {
    const [name] = definition;
    const all = new Map<string, { counts: number[]; sum: number; count: number }>();
    function* lines() {
      for (const [labels, { counts, sum, count }] of all) {
        const rest = labels === "" ? "}" : `,${labels.slice(1)}`;
        let below = 0;
        for (const [index, limit] of buckets.entries()) {
          yield `${name}_bucket{le="${limit}"${rest} ${below += counts[index] ?? 0}`;
        }
        yield `${name}_bucket{le="+Inf"${rest} ${count}`;
        yield `${name}_sum${labels} ${sum}`;
        yield `${name}_count${labels} ${count}`;
      }
    }
    this.#texts.push(() => text("histogram", definition, lines()));
    return {
      observe(labels, value) {
        const key = print(labels);
        const series = all.get(key) ?? { counts: buckets.map(() => 0), sum: 0, count: 0 };
        const index = buckets.findIndex((limit) => value <= limit);
        if (index >= 0) series.counts[index]! += 1;
        series.sum += value;
        series.count += 1;
        all.set(key, series);
      },
    };
  }

  reading({ type, definition, read }: ReadMetric): void {
    const [name] = definition;
    this.#texts.push(async () => {
      const lines: string[] = [];
      for await (const batch of batchesOf(await read())) {
        for (const { labels, value } of batch) lines.push(`${name}${print(labels)} ${value}`);
      }
      return text(type, definition, lines);
    });
  }

  async text(): Promise<string> {
    return `${(await Promise.all(this.#texts.map((text) => text()))).join("\n\n")}\n`;
  }
}

function text(type: string, [name, help]: Definition, lines: Iterable<string>): string {
  return [`# HELP ${name} ${escape(help)}`, `# TYPE ${name} ${type}`, ...lines].join("\n");
}

type Batches = Iterable<Iterable<Sample>> | AsyncIterable<Iterable<Sample>>;

function batchesOf(reading: Reading): Batches {
  if (reading === undefined) return [];
  if (typeof reading === "number") return [[{ labels: {}, value: reading }]];
  return Symbol.asyncIterator in reading ? reading : [reading];
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

/** Returns `count` limits, each `factor` times the last one. */
export function exponentialBuckets(start: number, factor: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => start * factor ** i);
}

/** Returns `count` limits, each `step` more than the last one. */
export function linearBuckets(start: number, step: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => start + i * step);
}

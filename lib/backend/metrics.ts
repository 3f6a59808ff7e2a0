/** Declares the metrics of a backend, and sums the kernel's counters for them. */

export type Definition = readonly [name: string, help: string];

/** Counts failures, by family. */
export interface FailureMetric {
  readonly of: "sync" | "partial sync";
  readonly definition: Definition;
}

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One value, or a value for each set of labels, also in batches with pauses; `undefined`: the metric is left out. */
export type Reading = number | undefined | Iterable<Sample> | AsyncIterable<readonly Sample[]>;

export interface ReadMetric {
  readonly type: "gauge" | "counter";
  readonly definition: Definition;
  /** Never rejects, and takes seconds at most. */
  readonly read: () => Reading | Promise<Reading>;
}

export interface BackendMetrics {
  readonly failures: readonly FailureMetric[];
  readonly readings: readonly ReadMetric[];
}

/** Sums counters that begin again at 0 when their rule is rewritten. */
export class CounterSums {
  readonly #counts = new Map<string, { readonly sum: number; readonly last: number }>();

  seen(key: string, value: number): void {
    const { sum, last } = this.#counts.get(key) ?? { sum: 0, last: 0 };
    this.#counts.set(key, { sum: sum + value - (value < last ? 0 : last), last: value });
  }

  sumOf(key: string): number {
    return this.#counts.get(key)?.sum ?? 0;
  }
}

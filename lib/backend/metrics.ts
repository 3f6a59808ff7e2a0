/**
 * Defines the metrics of one mode as values, which each backend provides.
 *
 * @module
 */

/** A metric's name and help text. */
export type Definition = readonly [name: string, help: string];

/** Counts failures, by family. */
export interface FailureMetric {
  readonly of: "sync" | "partial sync" | "clean-up";
  readonly definition: Definition;
}

/** A value with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A value for each set of labels, read at each scrape. */
export interface GaugeMetric {
  readonly definition: Definition;
  readonly labels: readonly string[];
  readonly read: () => Iterable<Sample>;
}

/** Numbers that only grow, read at each scrape. */
export interface CounterMetric {
  readonly definition: Definition;
  readonly labels: readonly string[];
  /** Never rejects, and takes seconds at most. */
  readonly read: () => Iterable<Sample> | Promise<Iterable<Sample>>;
}

/** The metrics of a backend. */
export interface BackendMetrics {
  readonly failures: readonly FailureMetric[];
  readonly gauges: readonly GaugeMetric[];
  readonly counters: readonly CounterMetric[];
}

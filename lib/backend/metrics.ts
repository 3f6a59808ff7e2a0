/**
 * Metrics that only one mode has, as values: each backend names its own.
 *
 * @module
 */

/** A metric's name, and what it means. */
export type Definition = readonly [name: string, help: string];

/** Counts what was refused, by family. */
export interface FailureMetric {
  readonly of: "sync" | "partial sync" | "clean-up";
  readonly definition: Definition;
}

/** A value with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A value for each set of labels, read when the metrics are asked for. */
export interface GaugeMetric {
  readonly definition: Definition;
  readonly labels: readonly string[];
  readonly read: () => Iterable<Sample>;
}

/** Numbers that only grow, read when the metrics are asked for. */
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

/**
 * Makes metrics that belong to one registry, and what their recorders share.
 *
 * @module
 */
import type * as client from "prom-client";
import type { Definition, GaugeMetric } from "../../backend/metrics.ts";
import type { Family } from "../../model/values/address.ts";
import { FAMILY_NAMES } from "../../model/values/family_names.ts";
import { Counter, Gauge, Histogram } from "./prom_client.ts";

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
  /** A counter that is read when it is asked for. */
  readCounter(definition: Definition, read: () => number | Promise<number>): void;
  /** A counter of which all values are read when it is asked for. */
  readCounters(
    definition: Definition,
    options: { readonly labels: readonly string[]; readonly read: () => Promise<Iterable<Sample>> },
  ): void;
}

/** A value with its labels. */
type Sample = ReturnType<GaugeMetric["read"]> extends Iterable<infer T> ? T : never;

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
    readCounter: ([name, help], read) => {
      const collect = async () => {
        const value = await read();
        counter.reset();
        counter.inc(value);
      };
      const counter = new Counter({ name, help, registers, collect });
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

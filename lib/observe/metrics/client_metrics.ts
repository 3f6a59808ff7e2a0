/**
 * client-go's metrics of requests to the API server, by their own names, labels and buckets
 * (`component-base/metrics/prometheus/restclient`).
 *
 * @module
 */
import type { MetricFactory } from "./metric_factory.ts";

/** A request to the API server. */
export interface RestTarget {
  /** `GET`, `POST`; lists and watches are GET. */
  readonly verb: string;
  /** Host and port of the API server. */
  readonly host: string;
}

/** One request that was answered, or failed. */
export interface RestRequest extends RestTarget {
  /** HTTP status as text; client-go says `<error>` where there was no answer. */
  readonly code: string;
  /** Until the answer's headers were in. */
  readonly seconds: number;
  /** Size of its body, in bytes. */
  readonly size: number;
  /** What became of the same request before, where that failed: this one is its retry. */
  readonly retryOf?: string;
}

/** Records requests. */
export interface ClientMetrics {
  /** A request to the API server has been answered, or has failed. */
  request(request: RestRequest): void;
  /** The body of an answer was read, in bytes; those of watches do not count. */
  response(response: RestTarget & { readonly size: number }): void;
}

const SECONDS_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** 64 bytes to 16 MiB. */
const BYTES_BUCKETS = [
  ...[64, 256, 512, 1_024, 4_096, 16_384, 65_536, 262_144],
  ...[1_048_576, 4_194_304, 16_777_216],
];

/** Defines the metrics and gives their recorders. */
export function clientMetrics(make: MetricFactory): ClientMetrics {
  const requests = make.counter(
    ["rest_client_requests_total", "Requests to the API server"],
    ["code", "host", "method"],
  );
  const retries = make.counter(
    ["rest_client_request_retries_total", "Requests that were sent again after a failure"],
    ["code", "host", "verb"],
  );
  const histogram = (name: string, help: string, buckets: readonly number[]) =>
    make.histogram([name, help], { labels: ["host", "verb"], buckets });
  const durations = histogram(
    "rest_client_request_duration_seconds",
    "Until the API server answered, in seconds",
    SECONDS_BUCKETS,
  );
  const requestSizes = histogram(
    "rest_client_request_size_bytes",
    "Size of a request's body, in bytes",
    BYTES_BUCKETS,
  );
  const responseSizes = histogram(
    "rest_client_response_size_bytes",
    "Size of an answer's body, in bytes; watches do not count",
    BYTES_BUCKETS,
  );
  return {
    request: ({ verb, host, code, seconds, size, retryOf }) => {
      requests.inc({ code, host, method: verb });
      durations.observe({ host, verb }, seconds);
      requestSizes.observe({ host, verb }, size);
      if (retryOf !== undefined) retries.inc({ code: retryOf, host, verb });
    },
    response: ({ verb, host, size }) => responseSizes.observe({ host, verb }, size),
  };
}

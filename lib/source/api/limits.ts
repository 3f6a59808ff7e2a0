/** Declares the limits of watches: times, and what they keep. */
const MB = 1024 * 1024;

/** Times are in milliseconds. */
export const LIMITS = {
  /** The longest time without an event or bookmark before a watch is opened again: its connection may be dead. */
  silence: 40_000,
  /** The shortest time until the server ends a watch, 2 s after a bookmark. It resumes on the same connection. */
  watch: 31_000,
  /** The longest time without an event or bookmark before a list. A restored server can be silent for good. */
  stall: 180_000,
  /** The longest time without a new object in a streaming list. The server waits 3 s for its cache. */
  quiet: 10_000,
  /** The delay of a retry if the server does not know the resource. */
  absent: 600_000,
  backoff: { first: 250, longest: 30_000 },
  /** Objects in a page of a list, as in client-go. */
  pageSize: 500,
  /** The most objects of a kind to keep, against a faulty server. Kubernetes supports 150,000 pods. */
  maxObjects: 500_000,
  /** The most bytes of a kind to keep, as JSON. An endpoint has 120; a namespace at its highest cost has 500,000. */
  maxBytes: { all: 192 * MB, namespace: 64 * MB },
};

export type WatchLimits = Readonly<typeof LIMITS>;

/** Declares the limits of watches: times, and the objects that they keep. */
const MB = 1024 * 1024;

/** Times are in milliseconds. */
export const LIMITS = {
  /** The longest time without an event or bookmark before a watch is opened again: its connection may be dead. */
  silence: 40_000,
  /**
   * The shortest time after which the server ends a watch, which then resumes on the same connection. It sends a
   * bookmark 2 s before, so a longer silence is a fault. Firewalls do not forget connections that carry data.
   */
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
  /**
   * The most bytes of a kind to keep, as JSON: an endpoint has some 120, in memory too. A namespace at its highest cost
   * has some 500,000 endpoints.
   */
  maxBytes: { all: 192 * MB, namespace: 64 * MB },
};

export type WatchLimits = Readonly<typeof LIMITS>;

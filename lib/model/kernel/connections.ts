/**
 * The connection counters of the kernel, by frontend.
 *
 * @module
 */

/** The count of one frontend since its element or rule was last written. */
export interface FrontendCount {
  /** `keyInFamily` of its `frontendKey`. */
  readonly frontend: string;
  /** `namespace/name` of the Service that the frontend was written for. */
  readonly service: string;
  /** The number of new connections. */
  readonly connections: number;
}

/** The source of connection counts. */
export interface ConnectionCounters {
  /** True if this process wrote all frontends. Until then their counts were 0. */
  readonly areOurs: boolean;
  /**
   * Reads the counts of all frontends in one listing.
   *
   * @throws {ApplyError} if they cannot be read now
   */
  read(): Promise<Iterable<FrontendCount>>;
}

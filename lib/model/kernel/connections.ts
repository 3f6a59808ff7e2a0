/**
 * The connections that the kernel counts, frontend by frontend.
 *
 * @module
 */

/** What one frontend has counted since its element or rule was written last. */
export interface FrontendCount {
  /** `keyInFamily` of its `frontendKey`. */
  readonly frontend: string;
  /** `namespace/name` of the Service that it was written for. */
  readonly service: string;
  /** New connections. */
  readonly connections: number;
}

/** Where the counts are read. */
export interface ConnectionCounters {
  /** Whether this process has written all frontends: until then they had counted nothing. */
  readonly areOurs: boolean;
  /**
   * The counts of all frontends, in one listing.
   *
   * @throws {ApplyError} where they cannot be read now
   */
  read(): Promise<Iterable<FrontendCount>>;
}

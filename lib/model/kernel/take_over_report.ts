/**
 * What is told of a take-over that is under way.
 *
 * @module
 */

/** A take-over from kube-proxy's ipvs mode. */
export interface TakeOverReport {
  /** Connections that IPVS carries. */
  readonly connections: number;
  /** When they are ended, in milliseconds since the epoch. */
  readonly until: number;
  /** Why nothing is removed although the time is over; `undefined`: nothing is in the way. */
  readonly obstacle: string | undefined;
}

/**
 * The state of a take-over in progress.
 *
 * @module
 */

/** A take-over from kube-proxy's ipvs mode. */
export interface TakeOverReport {
  /** Connections in IPVS. */
  readonly connections: number;
  /** The deadline of these connections, milliseconds since the epoch. */
  readonly until: number;
  /** The reason why nothing is removed after the deadline; `undefined` if there is none. */
  readonly obstacle: string | undefined;
}

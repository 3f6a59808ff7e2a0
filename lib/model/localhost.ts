/**
 * The facts of listeners on loopback that others tell.
 *
 * @module
 */

/** A node port that cannot be opened. */
export interface LocalhostFailure {
  /** `namespace/name:port`. */
  readonly servicePort: string;
  readonly address: string;
  readonly port: number;
  readonly error: string;
}

/** How many there are. */
export interface LocalhostSummary {
  readonly listeners: number;
  /** Open now. */
  readonly connections: number;
}

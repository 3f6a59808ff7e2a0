/**
 * The facts about loopback listeners that status and findings report.
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

/** The number of listeners and their connections. */
export interface LocalhostSummary {
  readonly listeners: number;
  /** Connections that are open now. */
  readonly connections: number;
}

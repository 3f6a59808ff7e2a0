/**
 * The lock that lets one daemon at a time write the rules of a network namespace.
 *
 * @module
 */

/** The process that holds the lock. */
export interface LockHolder {
  /** The process number in its own PID namespace. */
  readonly pid: number;
  readonly version: string;
  /** The time of its start, ISO 8601. */
  readonly since: string;
}

/** A lock of the network namespace. The kernel releases it when the process ends. */
export interface NodeLock {
  /**
   * Takes the lock for as long as this process lives; may be called again.
   *
   * @param self what others read of this process
   * @returns if this process holds the lock now
   * @throws {Error} if the system has no such locks
   */
  take(self: LockHolder): boolean;
  /** Returns the process that holds the lock; `undefined`: it does not say who it is. */
  holder(): Promise<LockHolder | undefined>;
}

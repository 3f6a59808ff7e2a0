/**
 * The lock that sees to it that one daemon at a time writes the rules of a network namespace.
 *
 * @module
 */

/** Who holds the lock. */
export interface LockHolder {
  /** Its number in its own namespace of processes. */
  readonly pid: number;
  readonly version: string;
  /** When it started, as ISO 8601 has it. */
  readonly since: string;
}

/** Why the lock could not be taken. */
export interface LockRefusal {
  /** `undefined`: the holder does not say. */
  readonly holder: LockHolder | undefined;
  /** Resolves when the holder may have ended, or the signal aborts. */
  readonly released: (signal: AbortSignal) => Promise<void>;
}

/** A lock for each network namespace. It ends with its process. */
export interface NodeLock {
  /**
   * Takes the lock for as long as this process lives; may be called again.
   *
   * @param self what others are told
   * @returns why it could not be taken; `undefined`: it is held
   * @throws {Error} where the system has no such locks
   */
  take(self: LockHolder): Promise<LockRefusal | undefined>;
}

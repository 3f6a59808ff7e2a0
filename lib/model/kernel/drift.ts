/**
 * Changes of signpost's rules by other programs.
 *
 * @module
 */

/** A change of signpost's rules by another program, in words. */
export interface Drift {
  /** The deleted object, such as `element of services4`; `""` if none. */
  readonly missing: string;
  /** The added object, such as `rule of services`; `""` if none. */
  readonly added: string;
  /** The process that did it, such as `nft (pid 4711)`; `""` if unknown. */
  readonly by: string;
}

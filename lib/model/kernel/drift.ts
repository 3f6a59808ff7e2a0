/**
 * What other programs do to our rules.
 *
 * @module
 */

/** A change of our rules that is not ours, in words. */
export interface Drift {
  /** What is gone, such as `element of services4`; `""`: nothing. */
  readonly missing: string;
  /** What was added, such as `rule of services`; `""`: nothing. */
  readonly added: string;
  /** The process that did it, such as `nft (pid 4711)`; `""`: not known. */
  readonly by: string;
}

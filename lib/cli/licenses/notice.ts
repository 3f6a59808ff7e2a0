/**
 * The notice of a package that is in the program.
 *
 * @module
 */

/** A package that is in the program. */
export interface Notice {
  readonly name: string;
  readonly version: string;
  /** The publisher. */
  readonly publisher: string;
  /** As SPDX writes it. */
  readonly license: string;
  /** Its licence file, or the headers of its files. */
  readonly text: string;
}

/**
 * The end of the process, with a reason.
 *
 * @module
 */

/** Thrown where signpost cannot go on. The message is for the user; the exit code is 1. */
export class FatalError extends Error {
  override name = "FatalError";
}

/**
 * The error that ends the process.
 *
 * @module
 */

/** Ends signpost with exit code 1. The message is for the user. */
export class FatalError extends Error {
  override name = "FatalError";
}

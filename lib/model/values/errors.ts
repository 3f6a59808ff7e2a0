/**
 * What was thrown, in words.
 *
 * @module
 */

/** The message of an error, as it was written; of anything else that was thrown, its text. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * What was thrown, in words.
 *
 * @module
 */

/** Deno's advice in an error of a permission: signpost's users have no such flag. */
const DENO_FLAG = /, run again with the --allow-[\w-]+ flag/;

/** Returns the message of an error; of anything else that was thrown, its text. */
export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(DENO_FLAG, "");
}

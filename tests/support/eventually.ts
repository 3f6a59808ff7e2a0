/** Waiting for a condition, never for a time. */

/**
 * Asks `condition` again and again until it gives something truthy.
 *
 * @param description what is waited for, as it should read in the failure
 * @param condition may throw meanwhile; the last error is the failure's cause
 * @param options.deadline milliseconds until the wait fails, 30 000 by default
 * @param options.interval milliseconds between two questions, 50 by default
 * @returns what the condition gave
 * @throws {Error} where the deadline passes first
 */
export async function eventually<T>(
  description: string,
  condition: () => T | Promise<T>,
  options: { readonly deadline?: number; readonly interval?: number } = {},
): Promise<Exclude<T, false | null | undefined>> {
  const { deadline = 30_000, interval = 50 } = options;
  const end = performance.now() + deadline;
  for (;;) {
    let cause: unknown;
    try {
      const value = await condition();
      if (value) return value as Exclude<T, false | null | undefined>;
      cause = `the last answer was ${Deno.inspect(value)}`;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= end) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`${description}: not within ${deadline} ms (${why})`, { cause });
    }
    await new Promise((resolve) => setTimeout(resolve, interval));
  }
}

/**
 * Waits for all parts of the daemon.
 *
 * @module
 */
/** Ends when the signal aborts, or with the first failure. */
export async function untilAborted(
  signal: AbortSignal,
  parts: readonly Promise<unknown>[],
): Promise<void> {
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
  const failed = Promise.all(parts).then(() => aborted);
  await Promise.race([aborted, failed]);
}

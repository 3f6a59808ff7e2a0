/**
 * Readings that are made when they are asked for, at a bounded cost: however many ask, and however long
 * a reading takes.
 *
 * @module
 */
import type { Clock } from "../ports/ports.ts";

/** Milliseconds for which a reading holds. */
export const READING_VALID = 5_000;
/** Milliseconds that are waited for a reading; then the one before is given. */
const PATIENCE = 2_000;

/** What is read from. */
export interface BoundedReadingOptions<T> {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Makes a reading; may reject. */
  readonly refresh: () => Promise<void>;
  /** What is known. */
  readonly known: () => T;
}

/**
 * Reads where the last reading does not hold any more. One that fails gives what was known before, for a
 * counter never goes back.
 *
 * @returns takes the milliseconds for which a reading holds
 */
export function boundedReading<T>(
  { clock, refresh, known }: BoundedReadingOptions<T>,
): (valid?: number) => Promise<T> {
  let running: Promise<void> | undefined;
  let at = -Infinity;
  const begin = () => {
    at = clock.monotonic();
    return refresh().catch(() => {}).finally(() => running = undefined);
  };
  return async (valid = READING_VALID) => {
    if (!running && clock.monotonic() - at >= valid) running = begin();
    if (running) {
      const enough = new AbortController();
      await Promise.race([running, clock.sleep(PATIENCE, enough.signal)]);
      enough.abort();
    }
    return known();
  };
}

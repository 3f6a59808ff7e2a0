/**
 * Reads a value on demand at a bounded cost, however many callers ask.
 *
 * @module
 */
import type { Clock } from "../ports/ports.ts";

/** Milliseconds for which a reading is valid. */
export const READING_VALID = 5_000;
/** Milliseconds to wait for a reading before the last value is returned. */
const PATIENCE = 2_000;

/** The source of readings. */
export interface BoundedReadingOptions<T> {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Reads the value; may reject. */
  readonly refresh: () => Promise<void>;
  /** Returns the last value. */
  readonly known: () => T;
}

/**
 * Refreshes the value if the last reading has expired. If that fails, the last value stays.
 *
 * @returns a function of the milliseconds for which a reading is valid
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

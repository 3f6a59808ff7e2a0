/**
 * Adapter: the machine's clocks.
 *
 * @module
 */
import type { Clock } from "../model/ports.ts";

/** Real time. */
export class SystemClock implements Clock {
  /** @inheritdoc */
  now(): number {
    return Date.now();
  }

  /** @inheritdoc */
  monotonic(): number {
    return performance.now();
  }

  /** @inheritdoc */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      const timer = setTimeout(finish, milliseconds);
      signal?.addEventListener("abort", finish);
    });
  }
}

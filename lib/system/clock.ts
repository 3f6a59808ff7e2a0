/** Adapter: reads the machine's clocks. It is a separate file, because tests without programs import it too. */
import type { Clock } from "../model/ports/ports.ts";

/** Timers hold 31 bits of milliseconds, 24 days. A longer timer would end at once. */
const MAX_TIMER = 2 ** 31 - 1;

export class SystemClock implements Clock {
  now(): number {
    return Date.now();
  }

  monotonic(): number {
    return performance.now();
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      const timer = setTimeout(finish, Math.min(milliseconds, MAX_TIMER));
      signal?.addEventListener("abort", finish);
    });
  }
}

/** Adapter: the machine's clocks. Tests of no program use it too, so it stands alone. */
import type { Clock } from "../model/ports/ports.ts";

/** Timers hold 31 bits of milliseconds; one for more ends at once. */
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
      const wait = (left: number): ReturnType<typeof setTimeout> =>
        left <= MAX_TIMER
          ? setTimeout(finish, left)
          : setTimeout(() => timer = wait(left - MAX_TIMER), MAX_TIMER);
      let timer = wait(milliseconds);
      signal?.addEventListener("abort", finish);
    });
  }
}

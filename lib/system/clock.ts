/** Adapter: reads the machine's clocks. It is a separate file, because tests without programs import it too. */
import type { Clock } from "../model/ports/ports.ts";

/** Timers hold 31 bits of milliseconds, 24 days. A longer timer would end at once. */
const MAX_TIMER = 2 ** 31 - 1;

export class SystemClock implements Clock {
  /** The end of the last turn that a caller waits for. */
  #turn: Promise<void> = Promise.resolve();

  now(): number {
    return Date.now();
  }

  monotonic(): number {
    return performance.now();
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    if (milliseconds === 0 && !signal) return this.#nextTurn();
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

  /** Resolves for one caller after each read of sockets. Two timers that are due would run without such a read. */
  #nextTurn(): Promise<void> {
    const turn = () => new Promise<void>((resolve) => setImmediate(() => setTimeout(resolve, 0)));
    return this.#turn = this.#turn.then(turn);
  }
}

/**
 * A bell for one sleeper.
 *
 * @module
 */
import type { Clock } from "../model/ports.ts";

/** Rings at once where it was rung while nobody slept. */
export class Wakeup {
  readonly #clock: Clock;
  #rung = false;
  #ring: (() => void) | undefined;

  /** @param clock ends the sleep where nobody rings */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the sleep, or the next one before it begins. */
  wake(): void {
    this.#rung = true;
    this.#ring?.();
  }

  /** Sleeps until somebody rings or the milliseconds are over. */
  async wait(milliseconds: number): Promise<void> {
    if (!this.#rung) {
      const over = new AbortController();
      this.#ring = () => over.abort();
      await this.#clock.sleep(Math.min(milliseconds, MAX_TIMER), over.signal);
      this.#ring = undefined;
    }
    this.#rung = false;
  }
}

/** Timers hold 31 bits of milliseconds. */
const MAX_TIMER = 2 ** 31 - 1;

/**
 * Wakes one waiter.
 *
 * @module
 */
import type { Clock } from "../model/ports/ports.ts";

/** Ends the next wait at once where it was set while no one waited. */
export class AutoResetEvent {
  #isSet = false;
  #end: (() => void) | undefined;

  /** @param clock ends the wait where the event is not set */
  constructor(private readonly clock: Clock) {}

  /** Sets the event: ends the wait, or the next one before it begins. */
  set(): void {
    this.#isSet = true;
    this.#end?.();
  }

  /** Waits until the event is set or the milliseconds are over. */
  async wait(milliseconds: number): Promise<void> {
    if (!this.#isSet) {
      const over = new AbortController();
      this.#end = () => over.abort();
      await this.clock.sleep(Math.min(milliseconds, MAX_TIMER), over.signal);
      this.#end = undefined;
    }
    this.#isSet = false;
  }
}

/** Timers hold 31 bits of milliseconds. */
const MAX_TIMER = 2 ** 31 - 1;

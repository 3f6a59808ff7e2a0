/**
 * A limit on idle time.
 *
 * @module
 */
import type { Clock } from "../../../model/ports/ports.ts";

/** Calls back once after too long an idle time, by monotonic time. */
export class IdleLimit {
  #last: number;
  #wake = new AbortController();
  #stopped = false;

  /**
   * Starts to count.
   *
   * @param milliseconds the longest idle time
   * @param options the clock, and the callback
   */
  constructor(
    private milliseconds: number,
    private readonly options: { readonly clock: Clock; readonly onIdle: () => void },
  ) {
    this.#last = options.clock.monotonic();
    this.#run();
  }

  /** Notes activity: the limit, or a new one, counts from now. */
  touch(milliseconds = this.milliseconds): void {
    const isShorter = milliseconds < this.milliseconds;
    this.milliseconds = milliseconds;
    this.#last = this.options.clock.monotonic();
    if (isShorter) this.#wake.abort();
  }

  /** Stops counting. */
  stop(): void {
    this.#stopped = true;
    this.#wake.abort();
  }

  async #run(): Promise<void> {
    const { clock, onIdle } = this.options;
    while (!this.#stopped) {
      const left = this.#last + this.milliseconds - clock.monotonic();
      if (left <= 0) return onIdle();
      if (this.#wake.signal.aborted) this.#wake = new AbortController();
      await clock.sleep(left, this.#wake.signal);
    }
  }
}

/**
 * A limit on how long nothing may happen.
 *
 * @module
 */
import type { Clock } from "../../../model/ports/ports.ts";

/** Calls back once, when nothing was noted for so long. Goes by monotonic time only. */
export class IdleLimit {
  #last: number;
  #wake = new AbortController();
  #stopped = false;

  /**
   * Starts to count.
   *
   * @param milliseconds how long nothing may happen
   * @param options the clock, and what to do when it was too long
   */
  constructor(
    private milliseconds: number,
    private readonly options: { readonly clock: Clock; readonly onIdle: () => void },
  ) {
    this.#last = options.clock.monotonic();
    this.#run();
  }

  /** Something happened: the limit counts from now, and may be another from here on. */
  touch(milliseconds = this.milliseconds): void {
    const isShorter = milliseconds < this.milliseconds;
    this.milliseconds = milliseconds;
    this.#last = this.options.clock.monotonic();
    if (isShorter) this.#wake.abort();
  }

  /** Ends the counting. */
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

/**
 * A limit on how long nothing may happen.
 *
 * @module
 */
import type { Clock } from "../model/ports.ts";

/** Calls back once, when nothing was noted for so long. Goes by monotonic time only. */
export class IdleLimit {
  #last: number;
  readonly #stop = new AbortController();

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
    this.milliseconds = milliseconds;
    this.#last = this.options.clock.monotonic();
  }

  /** Ends the counting. */
  stop(): void {
    this.#stop.abort();
  }

  async #run(): Promise<void> {
    const { clock, onIdle } = this.options;
    while (!this.#stop.signal.aborted) {
      const left = this.#last + this.milliseconds - clock.monotonic();
      if (left <= 0) return onIdle();
      await clock.sleep(left, this.#stop.signal);
    }
  }
}

/** Runs long work in turns, so that the event loop can do other work between them. */
import type { Clock } from "./ports.ts";

export function atOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Milliseconds of a turn. The timer between two turns takes 1 ms. */
const TURN = 20;

/**
 * Splits long work by time. Generators yield after each item, which costs some 0.4 µs. Longer steps delay other work.
 * While V8 marks a large heap late, each 64 KB of new objects cost 5 ms (`IncrementalMarking::AdvanceOnAllocation`).
 */
export class Turns {
  #began: number;

  /** @param clock measures turns; the first turn begins now */
  constructor(private readonly clock: Pick<Clock, "monotonic" | "sleep">) {
    this.#began = clock.monotonic();
  }

  /** True if other work is due. */
  get isOver(): boolean {
    return this.clock.monotonic() - this.#began >= TURN;
  }

  /** Lets other work run if this turn is over. It costs little to call often. */
  async yieldIfDue(): Promise<void> {
    if (!this.isOver) return;
    await this.clock.sleep(0);
    this.#began = this.clock.monotonic();
  }

  /** Runs work to its end. At each yield, other work can run. */
  async run<T>(work: Generator<undefined, T>): Promise<T> {
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
      if (this.isOver) await this.yieldIfDue();
    }
  }
}

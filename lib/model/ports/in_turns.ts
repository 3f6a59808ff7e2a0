/**
 * Long work in turns: the event loop does other work between two of them.
 *
 * @module
 */
import type { Clock } from "./ports.ts";

/** Does work to its end at one go. */
export function atOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Does work to its end, and lets other work be done where it yields. */
export async function inTurns<T>(
  work: Generator<undefined, T>,
  clock: Pick<Clock, "sleep">,
): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    await clock.sleep(0);
  }
}

/**
 * How long changes are gathered where no min sync period is set: by what the last syncs took.
 *
 * @module
 */

/** Milliseconds; a pause is never longer, whatever the kernel takes. */
export const LONGEST_PAUSE = 1_000;

/** Pauses are so many times as long as syncs: syncing takes a fifth of the time. */
const FACTOR = 4;

/** Syncs that a pause follows. */
const COUNTED = 3;

/** A sync that took longer than this, in milliseconds, has the longest pauses as it is. */
const LONGEST_COUNTED = LONGEST_PAUSE / FACTOR;

/**
 * The pause after a sync.
 *
 * The mean of the last three: a single slow sync is paid for in three short pauses, not in a long one.
 * Where there are fewer, those before took no time: so a change that soon follows the first one does
 * not wait long. That is within the share, for before the first one there was a quiet second.
 *
 * The time on the clock stands for the time of the processor, that of `nft` or `iptables-restore`
 * included: both programs have one busy thread, and one waits for the other. On a machine that is busy
 * otherwise the pauses become longer.
 *
 * @param durations milliseconds that the last syncs took, the newest last, without a quiet second between
 * @returns milliseconds from the end of the last sync until the next one may begin
 */
export function adaptivePause(durations: readonly number[]): number {
  const counted = durations.slice(-COUNTED).map((each) => Math.min(each, LONGEST_COUNTED));
  return counted.reduce((sum, each) => sum + each, 0) * FACTOR / COUNTED;
}

/** What the syncs that the next pause follows took, after one more. */
export function withDuration(durations: readonly number[], duration: number): readonly number[] {
  return [...durations, duration].slice(-COUNTED);
}

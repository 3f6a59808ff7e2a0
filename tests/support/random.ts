/** Random numbers that can be had again. */

/** A whole number from 0 up to, but without, a limit. */
export type Random = (limit: number) => number;

/** Random numbers that follow from a seed (mulberry32). */
export function randomNumbers(seed: number): Random {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

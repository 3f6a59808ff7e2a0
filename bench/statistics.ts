/**
 * The few statistics that the bench prints.
 *
 * @module
 */

/** The value below which that part (0 to 1) of the values lies; `NaN` of none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * part;
  const lower = sorted[Math.floor(position)];
  const upper = sorted[Math.ceil(position)];
  if (lower === undefined || upper === undefined) return NaN;
  return lower + (upper - lower) * (position - Math.floor(position));
}

/** The value in the middle. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

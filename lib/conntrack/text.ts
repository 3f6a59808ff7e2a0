/**
 * Text from outside, fit for a log.
 *
 * @module
 */

const MAX_LENGTH = 200;

/** One line without control characters, cut where it is long. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, " ").trim().slice(0, MAX_LENGTH);
}

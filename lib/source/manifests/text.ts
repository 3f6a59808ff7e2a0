/**
 * Text from outside, made fit for a message.
 *
 * @module
 */

const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]+/gu;

/**
 * One printable line of limited length.
 *
 * Everything that a server or a file says passes through here before it enters an error or a
 * log line: no line breaks, no control or formatting characters.
 *
 * @param text what the outside said
 * @param limit characters kept
 */
export function oneLine(text: string, limit = 300): string {
  const line = text.slice(0, 4 * limit).replace(UNPRINTABLE, " ").trim();
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

/** What a thrown value says, as one printable line. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error));
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return oneLine(error.message || code || error.name);
}

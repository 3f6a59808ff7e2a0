/**
 * Makes text safe for one log line: no secrets, no control characters, not too long.
 *
 * @module
 */

/** Longest text in one field or message, in UTF-16 code units; the rest is cut off. */
export const MAXIMUM_TEXT_LENGTH = 4096;

const REDACTED = "[redacted]";

/** Control and format characters (line breaks, escapes, text direction) and line separators. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** What looks like a secret, and what takes its place. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [
    /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/g,
    REDACTED,
  ],
  [/\b(Bearer|Basic)\s+[^\s"',;]+/gi, `$1 ${REDACTED}`],
  [/\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, REDACTED],
  [/(:\/\/)[^\s/@]+@/g, `$1${REDACTED}@`],
  [
    /\b((?:access_|id_)?token|password|client-key-data|client-secret)(["']?\s{0,4}[:=]\s{0,4}["']?)[^\s"',}&]{8,}/gi,
    `$1$2${REDACTED}`,
  ],
];

/**
 * Replaces what looks like a secret: bearer tokens, basic authentication, JSON web tokens, private
 * keys, user names and passwords in URLs, `token:` and `password:` values.
 *
 * @param text for example an error message that quotes a request header
 */
export function redactSecrets(text: string): string {
  return SECRETS.reduce((safe, [pattern, instead]) => safe.replace(pattern, instead), text);
}

/**
 * Cuts the text to its greatest length and takes secrets out.
 *
 * @param text anything, from anywhere
 */
export function sanitizeText(text: string): string {
  const safe = redactSecrets(text.slice(0, 2 * MAXIMUM_TEXT_LENGTH));
  return safe.length > MAXIMUM_TEXT_LENGTH || text.length > 2 * MAXIMUM_TEXT_LENGTH
    ? `${safe.slice(0, MAXIMUM_TEXT_LENGTH)}…`
    : safe;
}

/**
 * Writes control characters, line separators and format characters as escapes, as in JSON.
 *
 * @param text anything; the result is one line that does not move the cursor of a terminal
 */
export function escapeControls(text: string): string {
  return text.replace(UNSAFE, (character) => {
    switch (character) {
      case "\n":
        return "\\n";
      case "\r":
        return "\\r";
      case "\t":
        return "\\t";
      default:
        return unicodeEscape(character);
    }
  });
}

function unicodeEscape(character: string): string {
  return Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
  ).join("");
}

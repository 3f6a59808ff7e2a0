/** Makes text fit for a log: no secrets, not too long. `plain` makes it one line. */

/** Longest text in one field or message, in UTF-16 code units; the rest is cut off. */
export const MAXIMUM_TEXT_LENGTH = 4096;

const REDACTED = "[redacted]";

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

/** Replaces tokens, keys, passwords, and user names in URLs. */
export function redactSecrets(text: string): string {
  return SECRETS.reduce((safe, [pattern, instead]) => safe.replace(pattern, instead), text);
}

/** Cuts a text to its greatest length and replaces secrets. */
export function sanitizeText(text: string): string {
  const safe = redactSecrets(text.slice(0, 2 * MAXIMUM_TEXT_LENGTH));
  return safe.length > MAXIMUM_TEXT_LENGTH || text.length > 2 * MAXIMUM_TEXT_LENGTH
    ? `${safe.slice(0, MAXIMUM_TEXT_LENGTH)}…`
    : safe;
}

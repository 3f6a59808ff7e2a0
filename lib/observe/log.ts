/** Writes the log as text or JSON, without secrets. LogTape does not fit: it has one configuration for a process. */
import type { Clock, LogFields, Logger } from "../model/ports/ports.ts";
import { plain } from "../model/values/text.ts";

/** `message key=value …`, or one JSON object in each line. */
type LogFormat = "text" | "json";

export interface LoggerOptions {
  readonly clock: Pick<Clock, "now">;
  /** Takes one line at a time, line break included; must not throw. */
  readonly sink: (line: string) => void;
  /** Default: text. */
  readonly format?: LogFormat;
  /** `-v`: debug lines up to this level are printed. Default: 0, none. */
  readonly verbosity?: number;
  /** Begins lines with journald's priority (sd-daemon(3)). Text lines lack time and level then. Default: no. */
  readonly journald?: boolean;
}

type Level = "error" | "warn" | "info" | "debug";

/** syslog(3) priorities. */
const PRIORITIES: Readonly<Record<Level, number>> = { error: 3, warn: 4, info: 6, debug: 7 };

const OWN_NAMES: ReadonlySet<string> = new Set(["ts", "level", "msg", "v"]);

const BARE = /^[\w.:/@+[\]-]+$/;

interface LogEntry {
  readonly level: Level;
  readonly message: string;
  readonly fields: LogFields;
  readonly verbosity?: number;
}

/** Makes a logger. Each message becomes one line of limited length, without secrets and control characters. */
export function createLogger(options: LoggerOptions): Logger {
  const { clock, sink, format = "text", verbosity = 0, journald = false } = options;
  const write = (entry: LogEntry) => {
    const time = new Date(clock.now()).toISOString();
    const line = format === "json" ? jsonLine(entry, time) : textLine(entry, journald ? "" : time);
    sink(`${journald ? `<${PRIORITIES[entry.level]}>` : ""}${line}\n`);
  };
  return {
    error: (message, fields = {}) => write({ level: "error", message, fields }),
    warn: (message, fields = {}) => write({ level: "warn", message, fields }),
    info: (message, fields = {}) => write({ level: "info", message, fields }),
    debug: (level, message, fields = {}) => {
      if (level <= verbosity) write({ level: "debug", message, fields, verbosity: level });
    },
  };
}

/** Returns a line of text. @param time `""`: journald keeps time and level */
function textLine({ level, message, fields }: LogEntry, time: string): string {
  const parts = time === "" ? [] : [time, level.toUpperCase()];
  parts.push(plain(sanitizeText(message)));
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) parts.push(`${fieldName(name)}=${textValue(value)}`);
  }
  return parts.join(" ");
}

function textValue(value: string | number | boolean): string {
  if (typeof value !== "string") return String(rounded(value));
  const text = sanitizeText(value);
  return BARE.test(text) ? text : plain(JSON.stringify(text));
}

function jsonLine({ level, message, fields, verbosity }: LogEntry, time: string): string {
  const line: Record<string, string | number | boolean> = {
    ts: time,
    level,
    msg: sanitizeText(message),
  };
  if (verbosity !== undefined) line.v = verbosity;
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const safeName = fieldName(name);
    line[OWN_NAMES.has(safeName) ? `${safeName}_` : safeName] = typeof value === "string"
      ? sanitizeText(value)
      : rounded(value);
  }
  return plain(JSON.stringify(line));
}

/** Rounds numbers: times are in seconds, and less than 0.1 ms is noise. */
function rounded(value: number | boolean): number | boolean {
  return typeof value === "number" ? Math.round(value * 1e4) / 1e4 : value;
}

function fieldName(name: string): string {
  return name.replace(/[^\w.-]/g, "_").slice(0, 64);
}

/** The longest text of a field or message, in UTF-16 code units. The rest is cut off. */
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

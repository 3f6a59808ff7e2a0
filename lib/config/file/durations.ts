/** Parses and prints Go durations (package time, `ParseDuration` and `Duration.String`). */

const MINUTE = 60_000;

/** Milliseconds. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "µs": 1e-3,
  "μs": 1e-3,
  ms: 1,
  s: 1_000,
  m: MINUTE,
  h: 60 * MINUTE,
};

const WHOLE = /^[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;
const PART = /([\d.]+)(ns|us|µs|μs|ms|s|m|h)/g;

/** The longest Go duration in milliseconds: nanoseconds in a signed 64-bit integer, some 292 years. */
const LONGEST = 2 ** 63 / 1e6;

/** Parses a Go duration such as `1h30m` into milliseconds; `undefined` if the text is none. */
export function parseDuration(text: string): number | undefined {
  if (!WHOLE.test(text)) return undefined;
  const parts = Array.from(
    text.matchAll(PART),
    ([, count, unit = ""]) => Number(count) * (UNITS[unit] ?? 0),
  );
  const size = parts.reduce((sum, part) => sum + part, 0);
  if (size > LONGEST) return undefined;
  const milliseconds = toNanoseconds(size);
  return text.startsWith("-") ? 0 - milliseconds : milliseconds;
}

/** Rounds to the smallest step of Go. */
function toNanoseconds(milliseconds: number): number {
  return Number(milliseconds.toFixed(6));
}

/** Prints milliseconds as Go does: `30s`, `1m0s`, `24h0m0s`, `1.5s`, `500ms`, `0s`. */
export function formatDuration(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const size = toNanoseconds(Math.abs(milliseconds));
  if (size === 0) return "0s";
  if (size < 0.001) return `${sign}${decimal(size * 1e6, 1)}ns`;
  if (size < 1) return `${sign}${decimal(size * 1e3, 3)}µs`;
  if (size < 1_000) return `${sign}${decimal(size, 6)}ms`;
  const minutes = Math.floor(size / MINUTE);
  const seconds = `${decimal((size % MINUTE) / 1_000, 9)}s`;
  if (minutes === 0) return `${sign}${seconds}`;
  if (minutes < 60) return `${sign}${minutes}m${seconds}`;
  return `${sign}${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}

/** Prints a number without zeros at its end. */
function decimal(value: number, places: number): string {
  return value.toFixed(places).replace(/\.?0+$/, "");
}

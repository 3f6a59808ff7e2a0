/** Parses and prints Go durations (package time, `ParseDuration` and `Duration.String`). */

const MILLISECOND = 1_000_000n;
const MINUTE = 60_000n * MILLISECOND;

const UNIT_NANOSECONDS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  "µs": 1_000n,
  "μs": 1_000n,
  ms: MILLISECOND,
  s: 1_000n * MILLISECOND,
  m: MINUTE,
  h: 60n * MINUTE,
};

const WHOLE = /^[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;
const PART = /(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)/g;

/** The longest Go duration: nanoseconds in a signed 64-bit integer, some 292 years. */
const LONGEST = 2n ** 63n - 1n;

/**
 * Parses a Go duration.
 * @param text for example `1h30m`, `500ms`, `1.5s`, `0`
 * @returns milliseconds, or `undefined` if the text is no duration
 */
export function parseDuration(text: string): number | undefined {
  if (!WHOLE.test(text)) return undefined;
  let nanoseconds = 0n;
  for (const [, whole = "", fraction = "", unit = ""] of text.matchAll(PART)) {
    const size = UNIT_NANOSECONDS[unit] ?? 0n;
    nanoseconds += BigInt(whole) * size;
    nanoseconds += BigInt(fraction) * size / 10n ** BigInt(fraction.length);
  }
  if (nanoseconds > LONGEST) return undefined;
  const milliseconds = Number(nanoseconds / MILLISECOND) + Number(nanoseconds % MILLISECOND) / 1e6;
  return text.startsWith("-") ? 0 - milliseconds : milliseconds;
}

/**
 * Prints a duration as Go does.
 * @param milliseconds not `NaN`; nanoseconds are the smallest step
 * @returns for example `30s`, `1m0s`, `24h0m0s`, `1.5s`, `500ms`, `0s`
 */
export function formatDuration(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const whole = Math.floor(Math.abs(milliseconds));
  const fraction = Math.round((Math.abs(milliseconds) - whole) * 1e6);
  const nanoseconds = BigInt(whole) * MILLISECOND + BigInt(fraction);
  if (nanoseconds === 0n) return "0s";
  if (nanoseconds < 1_000n) return `${sign}${nanoseconds}ns`;
  if (nanoseconds < MILLISECOND) return `${sign}${decimal(nanoseconds, 3)}µs`;
  if (nanoseconds < 1_000n * MILLISECOND) return `${sign}${decimal(nanoseconds, 6)}ms`;
  const minutes = nanoseconds / MINUTE;
  const seconds = `${decimal(nanoseconds % MINUTE, 9)}s`;
  if (minutes === 0n) return `${sign}${seconds}`;
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`;
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`;
}

/** Prints a decimal fraction: `1500` with 3 places is `1.5`. */
function decimal(value: bigint, places: number): string {
  const digits = value.toString().padStart(places + 1, "0");
  const fraction = digits.slice(-places).replace(/0+$/, "");
  return digits.slice(0, -places) + (fraction === "" ? "" : `.${fraction}`);
}

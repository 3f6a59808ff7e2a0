/** Reads modes, addresses, ranges, names and durations, as kube-proxy's pkg/proxy/apis/config/validation does. */
import { familyOf, parseAddress, parseCidr } from "../../model/values/address.ts";
import { NODE_PORT_WORDS } from "../../model/configuration.ts";
import { hostPort, isDnsName } from "../../model/cluster/names.ts";
import { didYouMean } from "../../model/values/nearest.ts";
import { alternatives } from "../../model/values/text.ts";

/** Says why a value is refused. */
export class Fault {
  constructor(
    /** Follows the name of the field: `must be 0 to 31`. */
    readonly rule: string,
    /**
     * `type` if kube-proxy cannot decode the value, `value` if its validation may refuse it. The value of a `secret`
     * is not shown.
     */
    readonly kind: "type" | "value" | "secret" = "type",
  ) {}
}

export type Reader<T> = (value: unknown) => T | Fault;

export function boolean(value: unknown): boolean | Fault {
  if (typeof value === "boolean") return value;
  // kube-proxy reads YAML 1.1, which has more words.
  const word = typeof value === "string" ? value.toLowerCase() : "";
  if (["y", "yes", "on"].includes(word)) return true;
  return ["n", "no", "off"].includes(word) ? false : new Fault("must be true or false");
}

function textThat(passes: (text: string) => boolean, rule: string): Reader<string> {
  return (value) => typeof value === "string" && passes(value) ? value : new Fault(rule);
}

export const text: Reader<string> = textThat(() => true, "must be text");

export const path: Reader<string> = textThat(
  (path) => !path.includes("\0"),
  "must be text without a NUL byte",
);

/** The largest value of Go's `int32`. */
const INT32_MAX = 2 ** 31 - 1;

/** Returns a reader of integers within bounds, both included. */
export function integer(least: number, most = INT32_MAX): Reader<number> {
  const rule = `must be ${least} to ${most}`;
  const text = most === INT32_MAX && least === 0 ? "must be a whole number, 0 or more" : rule;
  return (value) => {
    if (typeof value !== "number" || !Number.isInteger(value)) return new Fault(text);
    return value >= least && value <= most ? value : new Fault(text, "value");
  };
}

export function number(value: unknown): number | Fault {
  return Number.isFinite(value) ? value as number : new Fault("must be a number");
}

/** Reads a Go duration, not negative, in milliseconds. Empty text is 0. */
export function duration(value: unknown): number | Fault {
  const milliseconds = typeof value === "string" ? parseDuration(value || "0") : undefined;
  if (milliseconds === undefined) {
    return new Fault("must be a duration such as 30s, 500ms or 1h30m");
  }
  return milliseconds < 0 ? new Fault("must not be negative", "value") : milliseconds;
}

/** Reads a duration or a number of nanoseconds (component-base's `TimeOrMetaDuration`), in milliseconds. */
export function durationOrNanoseconds(value: unknown): number | Fault {
  return typeof value === "number" && value >= 0 ? value / 1e6 : duration(value);
}

/** Reads a size with an optional unit (API machinery's `Quantity`), as text. */
export function quantity(value: unknown): string | Fault {
  if (typeof value === "number" && value >= 0) return String(value);
  return typeof value === "string" && /^(?:\d+(?:\.\d+)?(?:[kMGTPE]i?|[mun])?)?$/.test(value)
    ? value
    : new Fault("must be a size such as 0 or 64Ki");
}

export function oneOf<T extends string>(...words: readonly T[]): Reader<T | ""> {
  const rule = `must be ${alternatives(words)}`;
  return (value) =>
    value === ""
      ? value
      : words.find((word) => word === value) ?? new Fault(rule + didYouMean(value, words));
}

/** Returns a reader of primes within bounds, both included. */
export function prime(least: number, most: number): Reader<number> {
  const rule = `must be a prime from ${least} to ${most}, such as 251 or 1021`;
  const isPrime = (value: number) => {
    for (let divisor = 2; divisor * divisor <= value; divisor++) {
      if (value % divisor === 0) return false;
    }
    return true;
  };
  return (value) =>
    typeof value === "number" && Number.isInteger(value) && value >= least && value <= most &&
      isPrime(value)
      ? value
      : new Fault(rule);
}

/** Reads an IP address in canonical form, or empty. */
export function address(value: unknown): string | Fault {
  return value === "" ? "" : parseAddress(value) ?? new Fault("must be an IP address");
}

/** Reads `address:port`, an address alone, or empty. Without a port, an IPv6 address is printed without brackets. */
export function bindAddress(value: unknown): string | Fault {
  const single = address(value);
  if (!(single instanceof Fault)) return single;
  const match = typeof value === "string"
    ? /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(value)
    : null;
  const host = parseAddress(match?.[1] ?? match?.[2]);
  if (host === undefined || (match?.[1] !== undefined && familyOf(host) === 4)) {
    return new Fault("must be an IP address and a port, such as 0.0.0.0:10256 or [::]:10256");
  }
  if (match?.[3] === undefined) return host;
  const port = Number(match[3]);
  return port >= 1 && port <= 65535
    ? hostPort(host, port)
    : new Fault("must have a port from 1 to 65535");
}

/** Reads CIDRs with commas between, at most one of each family. Empty text is an empty list. */
export function clusterCidrs(value: unknown): readonly string[] | Fault {
  const rule = "must be a CIDR such as 10.244.0.0/16, or one IPv4 and one IPv6 CIDR with a comma";
  if (typeof value !== "string") return new Fault(rule);
  if (value.trim() === "") return [];
  const cidrs: string[] = [];
  for (const part of value.split(",")) {
    const cidr = parseCidr(part);
    if (cidr === undefined) return new Fault(rule, "value");
    if (cidrs.some((other) => familyOf(other) === familyOf(cidr))) {
      return new Fault(`must have at most one IPv${familyOf(cidr)} CIDR`, "value");
    }
    cidrs.push(cidr);
  }
  return cidrs;
}

/** Reads an entry of `nodePortAddresses`: a CIDR or a word. */
export function nodePortAddress(value: unknown): string | Fault {
  const word = NODE_PORT_WORDS.find((each) => each === value);
  if (word !== undefined) return word;
  const single = parseAddress(value);
  if (single !== undefined) {
    return new Fault(
      `must be a CIDR (did you mean ${single}/${familyOf(single) === 4 ? 32 : 128}?)`,
    );
  }
  return parseCidr(value) ??
    new Fault(
      `must be a CIDR, primary, localhost or all${didYouMean(value, NODE_PORT_WORDS)}`,
    );
}

export function cidr(value: unknown): string | Fault {
  if (typeof value !== "string") return new Fault("must be a CIDR");
  return parseCidr(value) ?? new Fault("must be a CIDR", "value");
}

/** Reads a node's name in lower case, trimmed as in kube-proxy's `GetHostname`, or empty. */
export function nodeName(value: unknown): string | Fault {
  if (typeof value !== "string") return new Fault("must be text");
  const name = value.trim().toLowerCase();
  return name === "" && value === "" || isDnsName(name)
    ? name
    : new Fault("must be a node name: letters, digits, '-' and '.', at most 253");
}

export const objectName: Reader<string> = textThat(
  (name) => name === "" || isDnsName(name),
  "must be a name: letters, digits, '-' and '.', at most 253",
);

/**
 * Reads the name or prefix of a network interface (15 characters, Linux's IFNAMSIZ - 1), or empty. It refuses
 * wildcards of nft (*) and iptables (+), and characters that could end a quoted name.
 */
export const interfaceName: Reader<string> = textThat(
  (name) => /^[A-Za-z0-9_.:@=-]{0,15}$/.test(name),
  "must be an interface name, at most 15 letters, digits or _ . : @ = -",
);

/** Reads an interface name, or the beginning of names with `*` after it. */
export const interfacePattern: Reader<string> = textThat(
  (pattern) => /^(?=.{1,15}$)[A-Za-z0-9_.@=-]*\*?$/.test(pattern),
  "must be an interface name, or the beginning of names and *, such as veth*",
);

/** Reads the API server's URL in canonical form without a slash at its end, or empty. */
export function serverUrl(value: unknown): string | Fault {
  if (value === "") return "";
  const url = typeof value === "string" && /^https?:\/\//.test(value) ? URL.parse(value) : null;
  if (url !== null && (url.username !== "" || url.password !== "")) {
    return new Fault("must not hold a password: use a kubeconfig", "secret");
  }
  if (url === null || url.search !== "" || url.hash !== "") {
    return new Fault("must be a URL such as https://10.0.0.1:6443");
  }
  return url.href.replace(/\/+$/, "");
}

/** Reads the log level of Go's source files. */
export function vmoduleItem(
  item: unknown,
): { readonly filePattern: string; readonly verbosity: number } | Fault {
  const { filePattern, verbosity }: { filePattern?: unknown; verbosity?: unknown } =
    typeof item === "object" && item !== null ? item : {};
  return typeof filePattern === "string" && typeof verbosity === "number"
    ? { filePattern, verbosity }
    : new Fault("must be a mapping with filePattern and verbosity");
}

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

const WHOLE = /^[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;
const PART = /([\d.]+)(ns|us|µs|μs|ms|s|m|h)/g;

/** The longest Go duration in milliseconds: nanoseconds in a signed 64-bit integer, some 292 years. */
const LONGEST = 2 ** 63 / 1e6;

/** Parses a Go duration (package time, `ParseDuration`), such as `1h30m`, to milliseconds; else `undefined`. */
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
export function printDuration(milliseconds: number): string {
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

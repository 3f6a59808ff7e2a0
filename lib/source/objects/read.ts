/**
 * Reads fields of untrusted JSON. Each function throws a `MalformedError` that names the path.
 *
 * @module
 */
import { parseAddress, parseCidr } from "../../model/values/address.ts";
import type { EndpointPort, Protocol, ServicePort } from "../../model/cluster/objects.ts";
import { isRecord, type Json } from "../../model/values/record.ts";
import { compact } from "../../model/values/lists.ts";
import { quote } from "../../model/values/text.ts";
import { isDnsName } from "../../model/cluster/names.ts";
import type { Field, Fields, ListField, Raw, Scalar, Unread } from "./fields.ts";
import type { METADATA } from "./tables.ts";

/** What every object tells of itself. */
export interface Metadata {
  /** `""` for objects without a namespace. */
  readonly namespace: string;
  readonly name: string;
  readonly labels: Json;
  readonly annotations: Json;
  readonly raw: Raw<typeof METADATA>;
}

/** Makes strings that recur one string in memory. */
export type Intern = (text: string) => string;

/** Makes lists that recur one list in memory. */
export type Share<T> = (list: readonly T[]) => readonly T[];

/** What decoding one object works with. */
export interface DecodeContext {
  readonly intern: Intern;
  readonly sharePorts: Share<ServicePort>;
  readonly shareEndpointPorts: Share<EndpointPort>;
  /** Collects what is left out of the object. */
  readonly omissions: Omissions;
}

/** Lines that are kept of what is left out of one object: a warning is to be read. */
const MAX_OMISSIONS = 5;

/** Entries of one list that may be left out; more of them are rubbish, and each takes its time. */
const MAX_OMITTED_ENTRIES = 10_000;

/** What is left out of one object because it cannot be used. */
export class Omissions {
  readonly #lines: string[] = [];
  #count = 0;

  /** Takes the reason why an entry is left out. */
  add({ message }: MalformedError): void {
    this.#count++;
    if (this.#lines.length < MAX_OMISSIONS) this.#lines.push(message);
  }

  /** One line for each of the first entries, and how many more there are; `undefined`: none. */
  get lines(): readonly string[] | undefined {
    if (this.#count === 0) return undefined;
    const more = this.#count - this.#lines.length;
    return more === 0 ? this.#lines : [...this.#lines, `and ${more} more`];
  }
}

/** A field of an API object that cannot be used. The message is one line: path, rule, value. */
export class MalformedError extends Error {
  override name = "MalformedError";
  /**
   * @param path where in the object, for example `spec.ports[0].port`
   * @param rule what the value must be
   */
  constructor(path: string, rule: string, value?: unknown) {
    super(`${path} ${rule}${value === undefined ? "" : `, is ${quote(value)}`}`);
  }
}

/** An object of which the fields of its table may be asked for; absent or null gives an empty one. */
export function readObject<F extends Fields>(
  value: Unread<Field<F>> | undefined,
  path: string,
): Raw<F> {
  return readMap(value, path) as Raw<F>;
}

/** An object of any fields; absent or null gives an empty one. */
export function readMap(value: unknown, path: string): Json {
  if (value === undefined || value === null) return {};
  if (!isRecord(value)) throw new MalformedError(path, "must be an object", value);
  return value;
}

/** An array; absent or null gives an empty one. */
export function readArray(value: unknown, path: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new MalformedError(path, "must be a list", value);
  return value;
}

/**
 * The entries of a list that can be used, as kube-proxy takes them: one that is malformed is left
 * out, and the others count.
 *
 * @throws {MalformedError} where the value is no list
 */
export function readEntries<V extends Scalar | Fields, T>(
  value: Unread<ListField<V>> | undefined,
  path: string,
  options: {
    readonly omissions: Omissions;
    /** `undefined` for an entry that says nothing. */
    readonly read: (entry: Unread<Field<V>>, path: string) => T | undefined;
  },
): readonly T[] {
  const { omissions, read } = options;
  const entries: T[] = [];
  const raw = readArray(value, path);
  let omitted = 0;
  for (let i = 0; i < raw.length; i++) {
    try {
      const entry = read(raw[i] as Unread<Field<V>>, `${path}[${i}]`);
      if (entry !== undefined) entries.push(entry);
    } catch (error) {
      omissions.add(malformed(error));
      if (++omitted > MAX_OMITTED_ENTRIES) {
        throw new MalformedError(path, `must have ${MAX_OMITTED_ENTRIES} unusable entries at most`);
      }
    }
  }
  return compact(entries);
}

/** Passes on what is no `MalformedError`. */
function malformed(error: unknown): MalformedError {
  if (error instanceof MalformedError) return error;
  throw error;
}

/** What the function reads; `undefined` where that is malformed and therefore left out. */
export function readOrOmit<T>(read: () => T, omissions: Omissions): T | undefined {
  try {
    return read();
  } catch (error) {
    omissions.add(malformed(error));
    return undefined;
  }
}

/** A string; absent or null gives `""`. */
export function readString(value: unknown, path: string): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new MalformedError(path, "must be a string", value);
  return value;
}

/** One of the given strings; absent, null or `""` gives the first. */
export function readChoice<T extends string>(
  value: unknown,
  path: string,
  choices: readonly [T, ...T[]],
): T {
  const text = readString(value, path);
  const choice = text === "" ? choices[0] : choices.find((each) => each === text);
  if (choice === undefined) {
    throw new MalformedError(path, `must be ${choices.join(" or ")}`, value);
  }
  return choice;
}

/** One of the given strings; absent, null or `""` gives `""`. */
export function readOptionalChoice<T extends string>(
  value: unknown,
  path: string,
  choices: readonly T[],
): T | "" {
  const [first, ...others] = choices;
  return first === undefined || readString(value, path) === ""
    ? ""
    : readChoice(value, path, [first, ...others]);
}

/** A boolean; absent or null gives the default. */
export function readBoolean(value: unknown, path: string, absent: boolean): boolean {
  if (value === undefined || value === null) return absent;
  if (typeof value !== "boolean") throw new MalformedError(path, "must be true or false", value);
  return value;
}

/** A whole number inside a range, both ends included. */
export function readInteger(
  value: unknown,
  path: string,
  range: { readonly min: number; readonly max: number },
): number {
  if (
    typeof value !== "number" || !Number.isInteger(value) || value < range.min || value > range.max
  ) {
    throw new MalformedError(
      path,
      `must be a number from ${range.min} to ${range.max}`,
      value ?? null,
    );
  }
  return value;
}

/** A port: 1 to 65535. */
export function readPort(value: unknown, path: string): number {
  return readInteger(value, path, { min: 1, max: 65535 });
}

/** A protocol; absent gives TCP. */
export function readProtocol(value: unknown, path: string): Protocol {
  const protocol = readChoice(value, path, ["TCP", "UDP", "SCTP"]);
  return protocol === "TCP" ? "tcp" : protocol === "UDP" ? "udp" : "sctp";
}

/** A name by the rules for DNS subdomains (RFC 1123), which hold for every name that signpost reads. */
export function readName(value: unknown, path: string): string {
  if (typeof value !== "string" || !isDnsName(value)) {
    throw new MalformedError(
      path,
      "must be a DNS name of lower-case letters, digits, '-' and '.'",
      value ?? null,
    );
  }
  return value;
}

/** A name as `readName` wants it; absent, null or `""` gives `""`. */
export function readOptionalName(value: unknown, path: string): string {
  return value === undefined || value === null || value === "" ? "" : readName(value, path);
}

/** The value of a label (RFC 1123 letters in either case, `_` too, or nothing at all). */
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** A zone or a node as labels and hints name it: the value of a label, or a DNS name; absent or null gives `""`. */
export function readPlace(value: unknown, path: string): string {
  const text = readString(value, path);
  if (LABEL_VALUE.test(text) || isDnsName(text)) return text;
  throw new MalformedError(path, "must be the value of a label", value);
}

/** An address, printed in canonical form. */
export function readAddress(value: unknown, path: string): string {
  const address = parseAddress(value);
  if (address === undefined) throw new MalformedError(path, "must be an IP address", value ?? null);
  return address;
}

/** A CIDR, printed in canonical form. */
export function readCidr(value: unknown, path: string): string {
  const cidr = parseCidr(value);
  if (cidr === undefined) throw new MalformedError(path, "must be a CIDR", value ?? null);
  return cidr;
}

/** A time, RFC 3339 or a `Date`, as milliseconds since the epoch; absent or unreadable gives 0. */
export function readTime(value: unknown): number {
  const time = value instanceof Date
    ? value.getTime()
    : typeof value === "string"
    ? Date.parse(value)
    : NaN;
  return Number.isNaN(time) ? 0 : time;
}

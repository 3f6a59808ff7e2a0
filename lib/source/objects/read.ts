/** Reads fields of untrusted JSON. Each function throws a `MalformedError` that names the path. */
import { parseAddress, parseCidr } from "../../model/values/address.ts";
import type { EndpointPort, Protocol, ServicePort } from "../../model/cluster/objects.ts";
import { isRecord, type Json } from "../../model/values/record.ts";
import { compact } from "../../model/values/lists.ts";
import { quote } from "../../model/values/text.ts";
import { isDnsName } from "../../model/cluster/names.ts";
import type { Field, Fields, ListField, METADATA, Raw, Scalar, Unread } from "./tables.ts";

export interface Metadata {
  /** `""` for objects without a namespace. */
  readonly namespace: string;
  readonly name: string;
  readonly labels: Json;
  readonly annotations: Json;
  readonly raw: Raw<typeof METADATA>;
}

export type Intern = (text: string) => string;

export type Share<T> = (list: readonly T[]) => readonly T[];

export interface DecodeContext {
  readonly intern: Intern;
  readonly sharePorts: Share<ServicePort>;
  readonly shareEndpointPorts: Share<EndpointPort>;
  /** Collects the parts that are left out. */
  readonly omissions: Omissions;
}

/** The most lines of omissions of one object. */
const MAX_OMISSIONS = 5;

/** The most unusable entries of one list, which bounds the time they take. */
const MAX_OMITTED_ENTRIES = 10_000;

/** The unusable parts of one object. */
export class Omissions {
  readonly #lines: string[] = [];
  #count = 0;

  add({ message }: MalformedError): void {
    this.#count++;
    if (this.#lines.length < MAX_OMISSIONS) this.#lines.push(message);
  }

  /** Returns a line for each of the first omissions, and the number of the rest; `undefined` if there are none. */
  get lines(): readonly string[] | undefined {
    if (this.#count === 0) return undefined;
    const more = this.#count - this.#lines.length;
    return more === 0 ? this.#lines : [...this.#lines, `and ${more} more`];
  }
}

/** Thrown for an unusable field of an API object. The message is one line: path, rule, value. */
export class MalformedError extends Error {
  override name = "MalformedError";
  /** @param path the field, for example `spec.ports[0].port` */
  constructor(path: string, rule: string, value?: unknown) {
    super(`${path} ${rule}${value === undefined ? "" : `, is ${quote(value)}`}`);
  }
}

/** Reads an object with the fields of its table. Absent or null is an empty one. */
export function readObject<F extends Fields>(
  value: Unread<Field<F>> | undefined,
  path: string,
): Raw<F> {
  return readMap(value, path) as Raw<F>;
}

/** Reads an object with any fields. Absent or null is an empty one. */
export function readMap(value: unknown, path: string): Json {
  if (value === undefined || value === null) return {};
  if (!isRecord(value)) throw new MalformedError(path, "must be an object", value);
  return value;
}

/** Reads an array. Absent or null is an empty one. */
export function readArray(value: unknown, path: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new MalformedError(path, "must be a list", value);
  return value;
}

/** Reads the usable entries of a list. As in kube-proxy, malformed entries are left out. */
export function readEntries<V extends Scalar | Fields, T>(
  value: Unread<ListField<V>> | undefined,
  path: string,
  options: {
    readonly omissions: Omissions;
    /** Returns `undefined` for an entry to skip. */
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

/** Returns a `MalformedError`, and throws any other error. */
function malformed(error: unknown): MalformedError {
  if (error instanceof MalformedError) return error;
  throw error;
}

/** Returns the value read, or `undefined` if it is malformed and left out. */
export function readOrOmit<T>(read: () => T, omissions: Omissions): T | undefined {
  try {
    return read();
  } catch (error) {
    omissions.add(malformed(error));
    return undefined;
  }
}

/** Reads a string. Absent or null is `""`. */
export function readString(value: unknown, path: string): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new MalformedError(path, "must be a string", value);
  return value;
}

/** Reads one of the given strings. Absent, null or `""` is the first. */
export function readChoice<T extends string>(
  value: unknown,
  path: string,
  choices: readonly [T, ...T[]],
): T {
  const text = readString(value, path);
  const choice = text === "" ? choices[0] : choices.find((each) => each === text);
  if (choice === undefined) {
    const rule = `must be ${choices.filter((each) => each !== "").join(" or ")}`;
    throw new MalformedError(path, rule, value);
  }
  return choice;
}

/** Reads a boolean. Absent or null is the default. */
export function readBoolean(value: unknown, path: string, absent: boolean): boolean {
  if (value === undefined || value === null) return absent;
  if (typeof value !== "boolean") throw new MalformedError(path, "must be true or false", value);
  return value;
}

/** Reads an integer inside a range, both ends included. */
export function readInteger(
  value: unknown,
  path: string,
  range: { readonly min: number; readonly max: number },
): number {
  if (
    typeof value !== "number" || !Number.isInteger(value) || value < range.min || value > range.max
  ) {
    const rule = `must be a number from ${range.min} to ${range.max}`;
    throw new MalformedError(path, rule, value ?? null);
  }
  return value;
}

export function readPort(value: unknown, path: string): number {
  return readInteger(value, path, { min: 1, max: 65535 });
}

/** Reads a protocol. Absent is TCP. */
export function readProtocol(value: unknown, path: string): Protocol {
  const protocol = readChoice(value, path, ["TCP", "UDP", "SCTP"]);
  return protocol === "TCP" ? "tcp" : protocol === "UDP" ? "udp" : "sctp";
}

/** Reads a DNS subdomain name (RFC 1123), the rule for every name that signpost reads. */
export function readName(value: unknown, path: string): string {
  if (typeof value !== "string" || !isDnsName(value)) {
    const rule = "must be a DNS name of lower-case letters, digits, '-' and '.'";
    throw new MalformedError(path, rule, value ?? null);
  }
  return value;
}

/** Reads a DNS subdomain name. Absent, null or `""` is `""`. */
export function readOptionalName(value: unknown, path: string): string {
  return value === undefined || value === null || value === "" ? "" : readName(value, path);
}

/** A label value: RFC 1123 letters in either case, `_` too, or nothing. */
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** Reads the zone or node of a label or hint: a label value or a DNS name. Absent or null is `""`. */
export function readPlace(value: unknown, path: string): string {
  const text = readString(value, path);
  if (LABEL_VALUE.test(text) || isDnsName(text)) return text;
  throw new MalformedError(path, "must be the value of a label", value);
}

/** Reads an address in canonical form. */
export function readAddress(value: unknown, path: string): string {
  const address = parseAddress(value);
  if (address === undefined) throw new MalformedError(path, "must be an IP address", value ?? null);
  return address;
}

/** Reads a CIDR in canonical form. */
export function readCidr(value: unknown, path: string): string {
  const cidr = parseCidr(value);
  if (cidr === undefined) throw new MalformedError(path, "must be a CIDR", value ?? null);
  return cidr;
}

/** Reads a time, RFC 3339 or a `Date`, as milliseconds since the epoch. Absent or unreadable is 0. */
export function readTime(value: unknown): number {
  const time = typeof value === "string" ? Date.parse(value) : value instanceof Date ? +value : 0;
  return Number.isNaN(time) ? 0 : time;
}

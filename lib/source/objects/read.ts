/** Reads untrusted JSON. Each method throws a `MalformedError` that names the path, the rule and the value. */
import { parseAddress, parseCidr } from "../../model/values/address.ts";
import type { EndpointPort, Protocol } from "../../model/cluster/objects.ts";
import { isRecord } from "../../model/values/record.ts";
import { compact } from "../../model/values/lists.ts";
import { show } from "../../model/values/text.ts";
import { isDnsName } from "../../model/cluster/names.ts";

export interface DecodeContext {
  /** `""` for objects without a namespace. */
  readonly namespace: string;
  readonly name: string;
  /** Returns the first of all equal texts, so that memory holds one. */
  readonly intern: (text: string) => string;
  /** Returns the first of all lists of equal ports. */
  readonly sharePorts: <T extends EndpointPort>(ports: readonly T[]) => readonly T[];
  /** Checks an estimate of the object's bytes. @throws {MalformedError} if it exceeds a bound */
  readonly reserve: (size: number) => void;
}

/** The most lines of omissions of one object. */
const MAX_OMISSIONS = 5;

/** The most unusable parts of one object, which bounds the time they take. */
const MAX_OMITTED = 1_000;

/** Collects the unusable parts of one object. */
export class Omissions {
  readonly #lines: string[] = [];
  count = 0;

  /** Adds a malformed part. @throws any other error */
  add(error: unknown): void {
    if (!(error instanceof MalformedError)) throw error;
    this.count++;
    if (this.#lines.length < MAX_OMISSIONS) this.#lines.push(error.message);
  }

  /** Returns a line for each of the first omissions, and the number of the rest; `undefined` without omissions. */
  get lines(): readonly string[] | undefined {
    if (this.count === 0) return undefined;
    const more = this.count - this.#lines.length;
    return more === 0 ? this.#lines : [...this.#lines, `and ${more} more`];
  }
}

/** Thrown for an unusable value of an API object. The message is one line: path, rule, value. */
export class MalformedError extends Error {
  override name = "MalformedError";
}

interface FieldPlace {
  /** The name of a field, the index of an entry, or the kind of a whole object. */
  readonly name: string | number;
  readonly parent?: Raw;
  readonly omissions: Omissions;
}

/** Matches a label value: RFC 1123 letters in either case, `_` too, or empty. */
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** Holds an unchecked value of an API object. Go may write null for an absent field. */
export class Raw {
  constructor(readonly value: unknown, private readonly place: FieldPlace) {}

  /** Returns the place, for example `spec.ports[0].port`. */
  get path(): string {
    const { name, parent } = this.place;
    if (parent === undefined) return String(name);
    if (typeof name === "number") return `${parent.path}[${name}]`;
    if (parent.place.parent === undefined) return name;
    return name.includes("/") ? `${parent.path}["${name}"]` : `${parent.path}.${name}`;
  }

  get isAbsent(): boolean {
    return this.value === undefined || this.value === null;
  }

  malformed(rule: string, value: unknown = this.value ?? null): MalformedError {
    return new MalformedError(`${this.path} ${rule}, is ${show(value)}`);
  }

  /** Returns a field. All fields of an absent object are absent. */
  at(name: string): Raw {
    const { value, place: { omissions } } = this;
    if (!this.isAbsent && !isRecord(value)) throw this.malformed("must be an object");
    return new Raw(isRecord(value) ? value[name] : undefined, { name, parent: this, omissions });
  }

  entry(name: number): Raw {
    return new Raw(this.list()[name], { name, parent: this, omissions: this.place.omissions });
  }

  /** Returns the values of a list. An absent list is empty. */
  list(): readonly unknown[] {
    if (this.isAbsent) return [];
    if (!Array.isArray(this.value)) throw this.malformed("must be a list");
    return this.value;
  }

  /** Reads the usable entries of a list, as kube-proxy does. @param read returns `undefined` for an entry to skip */
  entries<T>(read: (entry: Raw) => T | undefined, most = Infinity): readonly T[] {
    const entries: T[] = [];
    const { length } = this.list();
    if (length > most) throw new MalformedError(`${this.path} must have ${most} entries at most`);
    for (let i = 0; i < length; i++) {
      const entry = this.entry(i).orOmit(read);
      if (entry !== undefined) entries.push(entry);
      if (this.place.omissions.count <= MAX_OMITTED) continue;
      throw new MalformedError(`${this.path} must have ${MAX_OMITTED} unusable entries at most`);
    }
    return compact(entries);
  }

  /** Reads this value, or returns `undefined` if it is malformed and left out. */
  orOmit<T>(read: (value: Raw) => T): T | undefined {
    try {
      return read(this);
    } catch (error) {
      this.place.omissions.add(error);
      return undefined;
    }
  }

  /** Notes a rule that this value breaks. The object is used all the same. */
  note(rule: string): void {
    this.place.omissions.add(new MalformedError(`${this.path} ${rule}`));
  }

  /** Reads a string. Absent is `""`. */
  text(): string {
    if (this.isAbsent) return "";
    if (typeof this.value !== "string") throw this.malformed("must be a string");
    return this.value;
  }

  /** Reads one of the given strings. Absent or `""` is the first. */
  choice<T extends string>(choices: readonly [T, ...T[]]): T {
    const text = this.text();
    const choice = text === "" ? choices[0] : choices.find((each) => each === text);
    if (choice !== undefined) return choice;
    throw this.malformed(`must be ${choices.filter((each) => each !== "").join(" or ")}`);
  }

  boolean(absent: boolean): boolean {
    if (this.isAbsent) return absent;
    if (typeof this.value !== "boolean") throw this.malformed("must be true or false");
    return this.value;
  }

  integer(min: number, max: number): number {
    const { value } = this;
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) {
      return value;
    }
    throw this.malformed(`must be a number from ${min} to ${max}`);
  }

  port(): number {
    return this.integer(1, 65535);
  }

  /** Reads a port. Absent or 0 is 0. */
  optionalPort(): number {
    return this.value ? this.port() : 0;
  }

  /** Reads a protocol. Absent is TCP. */
  protocol(): Protocol {
    const protocol = this.choice(["TCP", "UDP", "SCTP"]);
    return protocol === "TCP" ? "tcp" : protocol === "UDP" ? "udp" : "sctp";
  }

  /** Reads a DNS subdomain name (RFC 1123), the rule for every name that signpost reads. */
  name(): string {
    const { value } = this;
    if (typeof value === "string" && isDnsName(value)) return value;
    throw this.malformed("must be a DNS name of lower-case letters, digits, '-' and '.'");
  }

  /** Reads a DNS subdomain name. Absent or `""` is `""`. */
  optionalName(): string {
    return this.isAbsent || this.value === "" ? "" : this.name();
  }

  /** Reads the zone or node of a label or hint: a label value or a DNS name. Absent is `""`. */
  topology(): string {
    const text = this.text();
    if (LABEL_VALUE.test(text) || isDnsName(text)) return text;
    throw this.malformed("must be the value of a label");
  }

  address(): string {
    const address = parseAddress(this.value);
    if (address === undefined) throw this.malformed("must be an IP address");
    return address;
  }

  cidr(): string {
    const cidr = parseCidr(this.value);
    if (cidr === undefined) throw this.malformed("must be a CIDR");
    return cidr;
  }

  /** Reads RFC 3339 or a `Date` as milliseconds since the epoch. Absent or unreadable is 0. */
  time(): number {
    const { value } = this;
    const time = typeof value === "string" ? Date.parse(value) : value instanceof Date ? +value : 0;
    return Number.isNaN(time) ? 0 : time;
  }
}

/**
 * The keys of elements as values, and their text: each type's printing and parsing, side by side.
 *
 * @module
 */
import { type Protocol, PROTOCOLS } from "../../../model/cluster/objects.ts";
import { nodePortKey, vipKey } from "../../../model/cluster/names.ts";

/** What each type of key consists of. */
interface KeyFields {
  /** A virtual IP with protocol and port, or a node port. */
  readonly frontend: {
    /** `undefined`: a node port. */
    readonly address: string | undefined;
    readonly protocol: Protocol;
    readonly port: number;
  };
  /** The place of one endpoint of a frontend. The set names the protocol. */
  readonly slot: { readonly frontend: FrontendKey; readonly slot: number };
  /** Sources that may reach a frontend. The set names the protocol. */
  readonly sourceRange: { readonly frontend: FrontendKey; readonly range: string };
  readonly address: { readonly address: string };
  /** An address, then another one. */
  readonly addressPair: { readonly source: string; readonly destination: string };
  readonly range: { readonly range: string };
  readonly mark: { readonly mark: number };
  /** What another program wrote and no other type reads. */
  readonly foreign: { readonly text: string };
}

/** Names a type of key. */
export type KeyType = keyof KeyFields;

/** The key of an element. */
export type Key<T extends KeyType = KeyType> = {
  [Each in T]: { readonly type: Each } & KeyFields[Each];
}[T];

/** A virtual IP with protocol and port, or a node port. */
export type FrontendKey = Key<"frontend">;

/** The text of one type of key. */
interface KeyFormat<T extends KeyType> {
  print(key: KeyFields[T]): string;
  /**
   * Reads what nft prints.
   *
   * @param protocol of the set, where it has one
   */
  parse(text: string, protocol: Protocol | undefined): Key<T> | undefined;
}

const SEPARATOR = " . ";

const FORMATS: { readonly [T in KeyType]: KeyFormat<T> } = {
  frontend: {
    print: ({ address, protocol, port }) =>
      address === undefined ? nodePortKey(protocol, port) : vipKey(address, protocol, port),
    parse(text) {
      const parts = text.split(SEPARATOR);
      const port = parts.pop();
      const protocol = parseProtocol(parts.pop());
      const [address] = parts;
      return protocol && parts.length <= 1 ? frontendKey(address, protocol, port) : undefined;
    },
  },
  slot: {
    print: ({ frontend, slot }) => slotPrinter(frontend)(slot),
    parse(text, protocol) {
      const { frontend, rest } = parseBehindFrontend(text, protocol);
      return frontend && isNumber(rest)
        ? { type: "slot", frontend, slot: Number(rest) }
        : undefined;
    },
  },
  sourceRange: {
    print: ({ frontend, range }) => `${frontendWithoutProtocol(frontend)}${SEPARATOR}${range}`,
    parse(text, protocol) {
      const { frontend, rest } = parseBehindFrontend(text, protocol);
      return frontend && { type: "sourceRange", frontend, range: withoutHostLength(rest) };
    },
  },
  address: {
    print: ({ address }) => address,
    parse: (text) => ({ type: "address", address: withoutHostLength(text) }),
  },
  addressPair: {
    print: ({ source, destination }) => `${source}${SEPARATOR}${destination}`,
    parse(text) {
      const [source = "", destination, ...rest] = text.split(SEPARATOR);
      return destination === undefined || rest.length > 0
        ? undefined
        : { type: "addressPair", source, destination };
    },
  },
  range: {
    print: ({ range }) => range,
    parse: (text) => ({ type: "range", range: withoutHostLength(text) }),
  },
  mark: {
    print: ({ mark }) => `0x${mark.toString(16)}`,
    parse(text) {
      const mark = Number(text);
      return Number.isInteger(mark) ? { type: "mark", mark } : undefined;
    },
  },
  foreign: {
    print: ({ text }) => text,
    parse: (text) => ({ type: "foreign", text }),
  },
};

/** A key as scripts have it. */
export function printKey<T extends KeyType>(key: Key<T>): string {
  const format: KeyFormat<T> = FORMATS[key.type];
  return format.print(key);
}

/** A key as nft lists it: a range of one address as the address. */
export function printListedKey(key: Key): string {
  return key.type === "range" || key.type === "sourceRange"
    ? printKey({ ...key, range: withoutHostLength(key.range) })
    : printKey(key);
}

/**
 * Reads a key as nft lists it.
 *
 * @param type the key type of its set
 * @param protocol the protocol of its set
 * @returns `undefined` where the text is no such key
 */
export function parseKeyOf<T extends KeyType>(
  type: T,
  text: string,
  protocol: Protocol | undefined,
): Key<T> | undefined {
  const format: KeyFormat<T> = FORMATS[type];
  return format.parse(text, protocol);
}

/** Prints the slots of one frontend: its part of their text is made once. */
export function slotPrinter(frontend: FrontendKey): (slot: number) => string {
  const prefix = frontendWithoutProtocol(frontend) + SEPARATOR;
  return (slot) => `${prefix}${slot}`;
}

/** The frontend that a key is about; `undefined` where it is about none. */
export function frontendOfKey(key: Key): FrontendKey | undefined {
  if (key.type === "frontend") return key;
  return key.type === "slot" || key.type === "sourceRange" ? key.frontend : undefined;
}

function frontendWithoutProtocol({ address, port }: FrontendKey): string {
  return address === undefined ? `${port}` : `${address}${SEPARATOR}${port}`;
}

/** Keys that begin with a frontend whose protocol the set names, and go on with one more part. */
function parseBehindFrontend(
  text: string,
  protocol: Protocol | undefined,
): { readonly frontend: FrontendKey | undefined; readonly rest: string } {
  const parts = text.split(SEPARATOR);
  const rest = parts.pop() ?? "";
  const port = parts.pop();
  const [address] = parts;
  const isKnown = protocol !== undefined && parts.length <= 1;
  return { frontend: isKnown ? frontendKey(address, protocol, port) : undefined, rest };
}

function frontendKey(
  address: string | undefined,
  protocol: Protocol,
  port: string | undefined,
): FrontendKey | undefined {
  return port !== undefined && isNumber(port)
    ? { type: "frontend", address, protocol, port: Number(port) }
    : undefined;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

/** Names of protocols: nft before 1.1 prints them where it finds /etc/protocols. */
export const PROTOCOL_NAMES: Readonly<Record<string, Protocol>> = {
  "6": "tcp",
  "17": "udp",
  "132": "sctp",
};

function parseProtocol(text: string | undefined): Protocol | undefined {
  return PROTOCOLS.find((each) => each === text) ?? PROTOCOL_NAMES[text ?? ""];
}

function withoutHostLength(range: string): string {
  return range.replace(/(\.\d+)\/32$/, "$1").replace(/(:[0-9a-f:.]*)\/128$/, "$1");
}

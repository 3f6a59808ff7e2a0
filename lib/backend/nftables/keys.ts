/** Prints and parses the keys of elements. */
import { type Protocol, PROTOCOLS } from "../../model/cluster/objects.ts";
import { frontendKey } from "../../model/cluster/names.ts";

export interface FrontendKey {
  readonly type: "frontend";
  /** `undefined`: a node port. */
  readonly address: string | undefined;
  readonly protocol: Protocol;
  readonly port: number;
}

/** Identifies an element in its set. The set names the protocol of `slot` and `sourceRange`. */
export type Key =
  | FrontendKey
  | { readonly type: "slot"; readonly frontend: FrontendKey; readonly slot: number }
  | { readonly type: "sourceRange"; readonly frontend: FrontendKey; readonly range: string }
  | { readonly type: "address"; readonly address: string }
  | { readonly type: "addressPair"; readonly source: string; readonly destination: string }
  | { readonly type: "range"; readonly range: string }
  | { readonly type: "mark"; readonly mark: number }
  /** Text that another program wrote and no other type reads. */
  | { readonly type: "foreign"; readonly text: string };

export type KeyType = Key["type"];

const SEPARATOR = " . ";

export function printKey(key: Key): string {
  switch (key.type) {
    case "frontend":
      return frontendKey(key);
    case "slot":
      return slotPrinter(key.frontend)(key.slot);
    case "sourceRange":
      return `${frontendWithoutProtocol(key.frontend)}${SEPARATOR}${key.range}`;
    case "addressPair":
      return `${key.source}${SEPARATOR}${key.destination}`;
    case "address":
      return key.address;
    case "range":
      return key.range;
    case "mark":
      return `0x${key.mark.toString(16)}`;
    case "foreign":
      return key.text;
  }
}

/** Prints a key as nft lists it: a range of one address as the address. */
export function printListedKey(key: Key): string {
  return key.type === "range" || key.type === "sourceRange"
    ? printKey({ ...key, range: withoutHostLength(key.range) })
    : printKey(key);
}

/** Reads a key as nft lists it; `undefined` if the text is no key of the set's type. */
export function parseKey(
  { keyType: type, protocol: setProtocol }: {
    readonly keyType: KeyType;
    readonly protocol: Protocol | undefined;
  },
  text: string,
): Key | undefined {
  const parts = text.split(SEPARATOR);
  switch (type) {
    case "frontend": {
      const port = parts.pop();
      return parseFrontend(parts, parseProtocol(parts.pop()), port);
    }
    case "slot":
    case "sourceRange": {
      const rest = parts.pop() ?? "";
      const port = parts.pop();
      const frontend = parseFrontend(parts, setProtocol, port);
      if (type === "sourceRange") {
        return frontend && { type, frontend, range: withoutHostLength(rest) };
      }
      return frontend && isNumber(rest) ? { type, frontend, slot: Number(rest) } : undefined;
    }
    case "addressPair": {
      const [source = "", destination, ...rest] = parts;
      const isPair = destination !== undefined && rest.length === 0;
      return isPair ? { type, source, destination } : undefined;
    }
    case "address":
      return { type, address: withoutHostLength(text) };
    case "range":
      return { type, range: withoutHostLength(text) };
    case "mark":
      return Number.isInteger(Number(text)) ? { type, mark: Number(text) } : undefined;
    case "foreign":
      return { type, text };
  }
}

/** Prints the slots of one frontend: their common text is made once. */
export function slotPrinter(frontend: FrontendKey): (slot: number) => string {
  const prefix = frontendWithoutProtocol(frontend) + SEPARATOR;
  return (slot) => `${prefix}${slot}`;
}

export function frontendOfKey(key: Key): FrontendKey | undefined {
  if (key.type === "frontend") return key;
  return key.type === "slot" || key.type === "sourceRange" ? key.frontend : undefined;
}

function frontendWithoutProtocol({ address, port }: FrontendKey): string {
  return address === undefined ? `${port}` : `${address}${SEPARATOR}${port}`;
}

function parseFrontend(
  addresses: readonly string[],
  protocol: Protocol | undefined,
  port = "",
): FrontendKey | undefined {
  return protocol !== undefined && addresses.length <= 1 && isNumber(port)
    ? { type: "frontend", address: addresses[0], protocol, port: Number(port) }
    : undefined;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

/** nft before 1.1 prints these if it finds /etc/protocols. */
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

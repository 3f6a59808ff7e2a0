/**
 * Writes the words of a rule in the spelling and order of `iptables-save`, to compare rules as text.
 * @module
 */
import { ADDRESS_BITS, type Family } from "../../../model/values/address.ts";
import type { LocalDetector } from "../../../model/kernel/desired.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";

/** Joins words, without empty ones. */
export function rule(...words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined && word !== "").join(" ");
}

/** Returns `address/32` or `address/128`, as `iptables-save` prints an address. */
export function host(family: Family, address: string): string {
  return `${address}/${ADDRESS_BITS[family]}`;
}

/** Returns `-m comment --comment …`. */
export function comment(text: string): string {
  return `-m comment --comment ${quote(text)}`;
}

/** Returns `-m tcp --dport 80`. `-p tcp` stands before the matches. */
export function port(protocol: Protocol, number: number): string {
  return `-m ${protocol} --dport ${number}`;
}

/** Returns a `-m statistic` match of one in a number, or nothing for one. The kernel keeps 31 bits. */
export function chance(oneOf: number): string | undefined {
  if (oneOf <= 1) return undefined;
  const probability = Math.round(2 ** 31 / oneOf) / 2 ** 31;
  return `-m statistic --mode random --probability ${probability.toFixed(11)}`;
}

/** Returns a mark and its mask, `0x4000/0x4000`. */
export function markAndMask(mark: number): string {
  const hex = `0x${(mark >>> 0).toString(16)}`;
  return `${hex}/${hex}`;
}

/** The match of a packet's origin: a source range or an interface, which have different places in a rule. */
export interface Origin {
  /** `-s …` or nothing. */
  readonly source: string;
  /** `-i …` or nothing. */
  readonly input: string;
}

/** Returns the match for packets from pods of this node, or with `"!"` from elsewhere. */
export function fromLocalPod(detector: LocalDetector, not: "" | "!" = ""): Origin {
  switch (detector.type) {
    case "cidr":
      return { source: rule(not, "-s", detector.cidr), input: "" };
    case "interface":
      return { source: "", input: rule(not, "-i", interfaceName(detector.name)) };
    case "interfacePrefix":
      return { source: "", input: rule(not, "-i", interfaceName(detector.prefix, "+")) };
  }
}

/** The longest interface name (IFNAMSIZ without the final zero). */
const LONGEST_INTERFACE_NAME = 15;

/** @param wildcard `+` matches every name with this beginning; a name of full length has no others */
function interfaceName(name: string, wildcard: "" | "+" = ""): string {
  const text = name.length < LONGEST_INTERFACE_NAME ? name + wildcard : name;
  return /^[\w.:@+-]+$/.test(text) ? text : quote(text);
}

/**
 * Quotes an argument as `iptables-save` does. Every character outside printable ASCII becomes `?`, so an argument
 * cannot end its line or quotes.
 */
export function quote(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, "?");
  if (/^[\w-]+$/.test(printable)) return printable;
  return `"${printable.replace(/["\\']/g, "\\$&")}"`;
}

/** Returns the target that rejects a packet, in the words of `iptables-save`. */
export function reject(family: Family): string {
  return `-j REJECT --reject-with ${family === 4 ? "icmp" : "icmp6"}-port-unreachable`;
}

/**
 * The words of a rule, in the very spelling and order in which `iptables-save` prints them, so
 * that what is wanted and what the kernel holds can be compared as text.
 *
 * @module
 */
import { ADDRESS_BITS, type Family } from "../../../model/values/address.ts";
import type { LocalDetector } from "../../../model/kernel/desired.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";

/** Joins the words that are there. */
export function rule(...words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined && word !== "").join(" ");
}

/** `address/32`, `address/128`: as `iptables-save` prints one address. */
export function host(family: Family, address: string): string {
  return `${address}/${ADDRESS_BITS[family]}`;
}

/** `-m comment --comment …`. */
export function comment(text: string): string {
  return `-m comment --comment ${quote(text)}`;
}

/** `-m tcp --dport 80`; `-p tcp` stands before the matches. */
export function port(protocol: Protocol, number: number): string {
  return `-m ${protocol} --dport ${number}`;
}

/** `-m statistic`, one of so many; nothing for the last one. The kernel keeps 31 bits of it. */
export function chance(oneOf: number): string | undefined {
  if (oneOf <= 1) return undefined;
  const probability = Math.round(2 ** 31 / oneOf) / 2 ** 31;
  return `-m statistic --mode random --probability ${probability.toFixed(11)}`;
}

/** `0x4000/0x4000`: a mark and its mask. */
export function markAndMask(mark: number): string {
  const hex = `0x${(mark >>> 0).toString(16)}`;
  return `${hex}/${hex}`;
}

/** Where a packet comes from: a source range or an interface, which stand at different places of a rule. */
export interface Origin {
  /** `-s …` or nothing. */
  readonly source: string;
  /** `-i …` or nothing. */
  readonly input: string;
}

/** The match for packets from pods of this node, or with `"!"` for all others. */
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

/** The longest name that an interface can have (IFNAMSIZ, less the end mark). */
const LONGEST_INTERFACE_NAME = 15;

/** @param wildcard `+`: every name that begins so; a name of full length has no others. */
function interfaceName(name: string, wildcard: "" | "+" = ""): string {
  const text = name.length < LONGEST_INTERFACE_NAME ? name + wildcard : name;
  return /^[\w.:@+-]+$/.test(text) ? text : quote(text);
}

/**
 * One argument as `iptables-restore` reads and `iptables-save` writes it.
 *
 * What is not printable ASCII becomes `?`: an argument cannot end its line or its quotes.
 */
export function quote(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, "?");
  if (/^[\w-]+$/.test(printable)) return printable;
  return `"${printable.replace(/["\\']/g, "\\$&")}"`;
}

/** The target that refuses a packet, in the words in which it is listed. */
export function reject(family: Family): string {
  return `-j REJECT --reject-with ${family === 4 ? "icmp" : "icmp6"}-port-unreachable`;
}

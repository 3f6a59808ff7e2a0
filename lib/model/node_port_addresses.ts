/**
 * The entries of `nodePortAddresses`: CIDRs, and words for CIDRs.
 *
 * @module
 */
import type { Configuration } from "./configuration.ts";
import type { ModeTraits } from "./kernel/traits.ts";
import { isLoopback } from "./values/address.ts";

/** The ranges of each word. `primary` has none: it means the Node's addresses. */
const RANGES: ReadonlyMap<string, readonly string[]> = new Map([
  ["primary", []],
  ["localhost", ["127.0.0.0/8", "::1/128"]],
  ["all", ["0.0.0.0/0", "::/0"]],
]);

/** The words. Each means addresses of both families. */
export const NODE_PORT_WORDS: readonly string[] = [...RANGES.keys()];

/** Returns the effective entries: of the configuration, or the default of the mode. */
export function nodePortEntries(
  { nodePortAddresses }: Pick<Configuration, "nodePortAddresses">,
  { primaryNodePorts }: Pick<ModeTraits, "primaryNodePorts">,
): readonly string[] {
  return nodePortAddresses.length === 0 && primaryNodePorts ? ["primary"] : nodePortAddresses;
}

/** Replaces words by their ranges, and drops `primary`. */
export function nodePortRanges(entries: readonly string[]): readonly string[] {
  return entries.flatMap((entry) => RANGES.get(entry) ?? [entry]);
}

/** Returns true if a range names loopback itself. A range that also has other addresses does not. */
export function isLoopbackRange(cidr: string): boolean {
  return isLoopback(cidr.replace(/\/.*/, ""));
}

/**
 * Which frontend an element of the table belongs to, and which service port it is commented with.
 *
 * @module
 */
import { frontendOfKey, printKey } from "../script/keys.ts";
import { parseKey, setNamed } from "../script/sets.ts";
import type { DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Frontend } from "../../../policy/frontend.ts";

/** What names a frontend: `IPv4 10.96.0.1 . tcp . 80`, `IPv6 udp . 30053`. */
export function frontendId(
  { family, protocol }: Pick<DesiredServicePort, "family" | "protocol">,
  { address, port }: Pick<Frontend, "address" | "port">,
): string {
  return `IPv${family} ${printKey({ type: "frontend", address, protocol, port })}`;
}

/**
 * The frontend of an element, as `frontendId` names it.
 *
 * @param name the name of its set
 * @param text its key, as nft lists it
 * @returns `undefined` for elements that are of no single frontend
 */
export function frontendIdOf(name: string, text: string): string | undefined {
  const set = setNamed(name);
  const key = set && parseKey(set, text);
  const frontend = key && frontendOfKey(key);
  return set?.family && frontend && frontendId({ family: set.family, ...frontend }, frontend);
}

/** An element's key, and the comment that stands between it and its data. */
const COMMENTED = /([0-9a-z:.]+(?: \. [0-9a-z:.]+)+) comment "([^"]*)"/g;

/**
 * The service ports that the kernel's elements are commented with.
 *
 * @param listing what `nft list table` prints
 * @returns by `frontendId`, `namespace/name:port`
 */
export function parseOwners(listing: string): Map<string, string> {
  const owners = new Map<string, string>();
  let set = "";
  for (const line of listing.split("\n")) {
    set = /^\t(?:map|set) (\S+) \{$/.exec(line)?.[1] ?? set;
    for (const [, key = "", owner = ""] of line.matchAll(COMMENTED)) {
      const frontend = frontendIdOf(set, key);
      if (frontend !== undefined) owners.set(frontend, owner);
    }
  }
  return owners;
}

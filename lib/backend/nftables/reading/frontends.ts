/**
 * Which frontend an element of the table belongs to, and which service port it is commented with.
 *
 * @module
 */
import { frontendKey, keyInFamily } from "../../../model/cluster/names.ts";
import type { Contents } from "../kernel/contents.ts";
import { frontendOfKey, parseKey } from "../script/keys.ts";
import { setNamed } from "../script/sets.ts";
import type { DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Frontend } from "../../../policy/frontend.ts";

/** What names a frontend: `IPv4 10.96.0.1 . tcp . 80`, `IPv6 udp . 30053`. */
export function frontendId(
  { family, protocol }: Pick<DesiredServicePort, "family" | "protocol">,
  { address, port }: Pick<Frontend, "address" | "port">,
): string {
  return keyInFamily(family, frontendKey({ address, protocol, port }));
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

/**
 * The service ports that the kernel's elements are commented with.
 *
 * @returns by `frontendId`, `namespace/name:port`
 */
export function ownersIn({ remarks }: Contents): Map<string, string> {
  const owners = new Map<string, string>();
  for (const [set, elements] of remarks) {
    for (const [key, remark] of elements) {
      const frontend = frontendIdOf(set, key);
      const [, owner] = /\bcomment "([^"]*)"/.exec(remark) ?? [];
      if (frontend !== undefined && owner !== undefined) owners.set(frontend, owner);
    }
  }
  return owners;
}

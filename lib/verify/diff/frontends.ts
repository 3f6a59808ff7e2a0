/**
 * Which frontend an element of the table belongs to, and which service port it is commented with.
 *
 * @module
 */

/** The listed protocol numbers: nft 1.1.3 and newer print them in the place of names. */
const PROTOCOLS: Readonly<Record<string, string>> = { "6": "tcp", "17": "udp", "132": "sctp" };

/**
 * The frontend of an element, as `address . protocol . port` or `protocol . port`.
 *
 * @returns `undefined` for elements that several frontends may share
 */
export function frontendOf(set: string, key: string): string | undefined {
  if (/^(?:cluster-ips|service-cidrs|hairpins|affinity)/.test(set)) return undefined;
  const parts = key.split(" . ");
  const [, isNodePort, protocol] =
    /^(nodeport-)?(?:(?:local-)?endpoints|source-ranges)-(tcp|udp|sctp)[46]$/.exec(set) ??
      [];
  const [first = "", second = "", third = ""] = parts;
  if (protocol !== undefined) {
    return isNodePort ? `${protocol} . ${first}` : `${first} . ${protocol} . ${second}`;
  }
  const isVip = /[.:]/.test(first);
  return isVip
    ? `${first} . ${PROTOCOLS[second] ?? second} . ${third}`
    : `${PROTOCOLS[first] ?? first} . ${second}`;
}

/** An element's key, and the comment that stands between it and its data. */
const COMMENTED = /([0-9a-z:.]+(?: \. [0-9a-z:.]+)+) comment "([^"]*)"/g;

/**
 * The service ports that the kernel's elements are commented with.
 *
 * @param listing what `nft list table` prints
 * @returns by frontend, `namespace/name:port`
 */
export function parseOwners(listing: string): Map<string, string> {
  const owners = new Map<string, string>();
  let set = "";
  for (const line of listing.split("\n")) {
    set = /^\t(?:map|set) (\S+) \{$/.exec(line)?.[1] ?? set;
    for (const [, key = "", owner = ""] of line.matchAll(COMMENTED)) {
      const frontend = frontendOf(set, key);
      if (frontend !== undefined) owners.set(frontendIn(set, frontend), owner);
    }
  }
  return owners;
}

/** Node ports are apart by family, which only the name of the set tells. */
export function frontendIn(set: string, frontend: string): string {
  return `IPv${set.at(-1)} ${frontend}`;
}

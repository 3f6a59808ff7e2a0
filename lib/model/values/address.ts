/** Parses IP addresses and CIDRs: untrusted text in, canonical text out. */
import ipaddr from "ipaddr.js";

export type Family = 4 | 6;

/** Both families, in the order of all output. */
export const FAMILIES: readonly Family[] = [4, 6];

export const ADDRESS_BITS: Readonly<Record<Family, number>> = { 4: 32, 6: 128 };

const DOTTED_DECIMAL = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/;
const CANONICAL_IPV4 =
  /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$/;
const IPV6_CHARACTERS = /^[0-9a-fA-F:.]{2,45}$/;

/**
 * Prints an address in canonical form (RFC 5952 for IPv6); `undefined` if it is not an address, or has a zone. As in
 * Go's `ParseIPSloppy`, leading zeros in IPv4 are decimal, and an IPv4-mapped address is the IPv4 address.
 */
export function parseAddress(text: unknown): string | undefined {
  if (typeof text !== "string") return undefined;
  if (CANONICAL_IPV4.test(text)) return text;
  const dotted = DOTTED_DECIMAL.exec(text);
  if (dotted) {
    const bytes = dotted.slice(1).map(Number);
    return bytes.every((byte) => byte <= 255) ? bytes.join(".") : undefined;
  }
  if (!text.includes(":") || !IPV6_CHARACTERS.test(text) || !ipaddr.IPv6.isValid(text)) {
    return undefined;
  }
  const address = ipaddr.IPv6.parse(text);
  return address.isIPv4MappedAddress()
    ? address.toIPv4Address().toString()
    : address.toRFC5952String();
}

/** Bits before the IPv4 address in an IPv4-mapped address (RFC 4291, 2.5.5.2). */
const MAPPED_BITS = 96;

export function familyOf(address: string): Family {
  return address.includes(":") ? 6 : 4;
}

/** Prints a CIDR in canonical form, without host bits and white space; `undefined` if it is not a CIDR. */
export function parseCidr(text: unknown): string | undefined {
  if (typeof text !== "string") return undefined;
  const match = /^([^/]+)\/(\d{1,3})$/.exec(text.trim());
  const address = parseAddress(match?.[1]);
  if (!match || address === undefined) return undefined;
  const family = familyOf(address);
  // The prefix length of an IPv4-mapped address counts 128 bits.
  const mapped = family === 4 && match[1]?.includes(":") ? MAPPED_BITS : 0;
  const length = Number(match[2]) - mapped;
  if (length < 0 || length > ADDRESS_BITS[family]) return undefined;
  return formatCidr(family, clearHostBits(addressToInteger(address), family, length), length);
}

export function isLoopback(address: string): boolean {
  return familyOf(address) === 4 ? address.startsWith("127.") : address === "::1";
}

/** Returns true for IPv6 addresses that need an interface (`fe80::/10`). @param address canonical */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab].:/.test(address);
}

const SPECIAL_RANGES: ReadonlySet<string> = new Set(["unspecified", "loopback", "linkLocal"]);

/** Returns true for unspecified, loopback and link-local addresses, as the API server's `ValidateNonSpecialIP`. */
export function isSpecialAddress(address: string): boolean {
  if (familyOf(address) === 4) {
    return /^(?:127|169\.254|224\.0\.0)\./.test(address) || address === "0.0.0.0";
  }
  return SPECIAL_RANGES.has(ipaddr.parse(address).range()) || /^ff0[12]:/.test(address);
}

const NEVER_USABLE: ReadonlySet<string> = new Set([...SPECIAL_RANGES, "multicast"]);

/**
 * Returns false for unspecified, loopback, link-local, multicast and broadcast addresses. Such a virtual IP or endpoint
 * would involve the node, its neighbours, or its cloud's metadata service. Clouds give 240.0.0.0/4 to pods.
 */
export function isUsableAddress(address: string): boolean {
  return familyOf(address) === 4
    ? !/^(?:0|127|169\.254|22[4-9]|23\d)\./.test(address) && address !== "255.255.255.255"
    : !NEVER_USABLE.has(ipaddr.parse(address).range());
}

const [DOT, ZERO] = [46, 48];

/** Returns the numeric value of a canonical IPv4 address. It parses digits, because map lookups call it. */
export function ipv4Number(address: string): number {
  let [value, byte] = [0, 0];
  for (let i = 0; i < address.length; i++) {
    const code = address.charCodeAt(i);
    if (code === DOT) [value, byte] = [value * 256 + byte, 0];
    else byte = byte * 10 + code - ZERO;
  }
  return value * 256 + byte;
}

export function addressToInteger(address: string): bigint {
  if (familyOf(address) === 4) return BigInt(ipv4Number(address));
  let value = 0n;
  for (const byte of ipaddr.parse(address).toByteArray()) value = (value << 8n) | BigInt(byte);
  return value;
}

export function integerToAddress(family: Family, value: bigint): string {
  const bytes: number[] = [];
  for (let shift = BigInt(ADDRESS_BITS[family]) - 8n; shift >= 0n; shift -= 8n) {
    bytes.push(Number((value >> shift) & 0xffn));
  }
  const address = ipaddr.fromByteArray(bytes);
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
}

/** Converts an address of `/proc/net/tcp` and the like (proc(5)): words of 32 bits, with swapped bytes. */
export function addressInProc(text: string): string {
  const swapped = text.replaceAll(/(..)(..)(..)(..)/g, "$4$3$2$1");
  return integerToAddress(text.length === 8 ? 4 : 6, BigInt(`0x${swapped}`));
}

/** Returns true if a CIDR contains an address, or all of another CIDR. */
export function cidrContains(cidr: string, inner: string): boolean {
  return covers(splitCidr(cidr), splitCidr(inner));
}

/** Returns a `cidrContains` for many addresses, which parses the CIDR once. */
export function cidrTest(cidr: string): (address: string) => boolean {
  const outer = splitCidr(cidr);
  if (outer.family === 6) return (address) => covers(outer, splitCidr(address));
  const [first, size] = [Number(outer.base), 2 ** (ADDRESS_BITS[4] - outer.length)];
  return (address) => {
    const offset = familyOf(address) === 4 ? ipv4Number(address) - first : -1;
    return offset >= 0 && offset < size;
  };
}

export function cidrsOverlap(a: string, b: string): boolean {
  return cidrContains(a, b) || cidrContains(b, a);
}

export function isEveryAddress(cidr: string): boolean {
  return cidr.endsWith("/0");
}

/** Returns the fewest CIDRs that cover the same addresses, sorted: interval sets refuse overlaps (nft(8)). */
export function mergeCidrs(cidrs: readonly string[]): string[] {
  const parts = cidrs.map(splitCidr).sort((a, b) =>
    a.base < b.base ? -1 : a.base > b.base ? 1 : a.length - b.length
  );
  const merged: CidrParts[] = [];
  for (const part of parts) {
    let [last, joined] = [merged.at(-1), part];
    if (last && covers(last, part)) continue;
    // Two halves of a range become that range, which may be a half again.
    while (last && last.length === joined.length && covers(parentOf(last), joined)) {
      joined = parentOf(last);
      merged.pop();
      last = merged.at(-1);
    }
    merged.push(joined);
  }
  return merged.map(({ family, base, length }) => formatCidr(family, base, length));
}

/** Cuts ranges of any family out of CIDRs of one family. */
export function cutOut(cidrs: readonly string[], holes: readonly string[]): readonly string[] {
  return holes.reduce<readonly string[]>(
    (rest, hole) => rest.flatMap((cidr) => cutOne(cidr, hole)),
    cidrs,
  );
}

function cutOne(cidr: string, hole: string): string[] {
  if (cidrContains(hole, cidr)) return [];
  if (!cidrContains(cidr, hole)) return [cidr];
  const { family, base, length } = splitCidr(cidr);
  const half = 1n << BigInt(ADDRESS_BITS[family] - length - 1);
  return [base, base + half].flatMap((each) => cutOne(formatCidr(family, each, length + 1), hole));
}

interface CidrParts {
  readonly family: Family;
  readonly base: bigint;
  readonly length: number;
}

/** Splits a CIDR. An address counts as a CIDR of full length. */
function splitCidr(cidr: string): CidrParts {
  const [address = "", length] = cidr.split("/");
  const family = familyOf(address);
  const base = addressToInteger(address);
  return { family, base, length: length === undefined ? ADDRESS_BITS[family] : Number(length) };
}

function covers(outer: CidrParts, inner: CidrParts): boolean {
  const { family, base, length } = outer;
  return family === inner.family && length <= inner.length &&
    clearHostBits(inner.base, family, length) === base;
}

/** Returns the range that a range is a half of. */
function parentOf({ family, base, length }: CidrParts): CidrParts {
  return { family, base: clearHostBits(base, family, length - 1), length: length - 1 };
}

function clearHostBits(value: bigint, family: Family, length: number): bigint {
  const hostBits = BigInt(ADDRESS_BITS[family] - length);
  return (value >> hostBits) << hostBits;
}

function formatCidr(family: Family, base: bigint, length: number): string {
  return `${integerToAddress(family, base)}/${length}`;
}

/** The core/v1 `IPFamily`, for bodies of `/healthz` and the metric label `ip_family`. */
export const FAMILY_NAMES: Readonly<Record<Family, "IPv4" | "IPv6">> = { 4: "IPv4", 6: "IPv6" };

/** The families by their names in nft. */
export const NFT_FAMILY: Readonly<Record<Family, "ip" | "ip6">> = { 4: "ip", 6: "ip6" };

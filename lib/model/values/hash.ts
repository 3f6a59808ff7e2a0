/**
 * Short hashes in names, as kube-proxy has them, and numbers that spread names.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { encodeBase32 } from "@std/encoding/base32";

/** The first letters of base32(sha256(text)) (RFC 4648, section 6); 16 of them are 80 bits. */
export function shortHash(text: string, length: number): string {
  return encodeBase32(createHash("sha256").update(text).digest()).slice(0, length);
}

/**
 * 32 bits of a name, to spread names by. FNV-1a, mixed as MurmurHash3 does it at its end, for names
 * differ in their last letters alone. It stays as it is: nodes of all versions have to agree.
 */
export function hash32(name: string, seed: number): number {
  let value = 0x811c9dc5 ^ seed;
  for (let i = 0; i < name.length; i++) {
    value = Math.imul(value ^ name.charCodeAt(i), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}

/** Hashes names: short texts as in kube-proxy, and numbers. */
import { sha256 } from "@noble/hashes/sha2";
import { encodeBase32 } from "@std/encoding/base32";

/** Returns the first letters of base32(sha256(text)) (RFC 4648, section 6); 16 letters are 80 bits. */
export function shortHash(text: string, length: number): string {
  // node:crypto would take 4 MB.
  return encodeBase32(sha256(new TextEncoder().encode(text))).slice(0, length);
}

/** Returns a 32-bit hash: FNV-1a with MurmurHash3's final mix. Nodes of all versions must agree on it. */
export function hash32(name: string, seed: number): number {
  let value = 0x811c9dc5 ^ seed;
  for (let i = 0; i < name.length; i++) {
    value = Math.imul(value ^ name.charCodeAt(i), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}

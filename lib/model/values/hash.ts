/**
 * Short hashes in names, as kube-proxy has them.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { encodeBase32 } from "@std/encoding/base32";

/** The first letters of base32(sha256(text)) (RFC 4648, section 6); 16 of them are 80 bits. */
export function shortHash(text: string, length: number): string {
  return encodeBase32(createHash("sha256").update(text).digest()).slice(0, length);
}

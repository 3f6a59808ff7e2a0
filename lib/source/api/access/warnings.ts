/**
 * Warns about an unsafe connection to the API server that the user asked for.
 *
 * @module
 */
import { unbracketed } from "../../../model/cluster/names.ts";
import { isLoopback, parseAddress } from "../../../model/values/address.ts";
import type { ApiAccess } from "./access.ts";

/** Returns one warning a line for the administrator. Holds no credentials. */
export function accessWarnings(access: ApiAccess): readonly string[] {
  const { server, verify, token, basic } = access;
  const warnings: string[] = [];
  if (server.protocol === "https:" && !verify) {
    warnings.push(
      `insecure-skip-tls-verify is set: whoever answers at ${server.origin} gets the credentials ` +
        "and decides on this node's rules; set certificate-authority instead",
    );
  }
  const hasSecret = token !== undefined || basic !== undefined;
  if (server.protocol === "http:" && hasSecret && !isLocal(server.hostname)) {
    warnings.push(
      `the credentials go to ${server.origin} unencrypted: who is on the way can read them, and ` +
        "decide on this node's rules; use https",
    );
  }
  return warnings;
}

function isLocal(hostname: string): boolean {
  const address = parseAddress(unbracketed(hostname));
  if (address === undefined) return hostname === "localhost";
  return isLoopback(address);
}

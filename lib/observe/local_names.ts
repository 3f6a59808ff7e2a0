/**
 * Reads the names by which the metrics server is asked. A page of another site can make its own name
 * lead to this server (DNS rebinding), but it cannot use an address as its name.
 *
 * @module
 */
import { unbracketed } from "../model/cluster/names.ts";
import { parseAddress } from "../model/values/address.ts";

/** Returns the host of `host:port`, without the brackets of an IPv6 address. */
export function hostOf(authority: string): string {
  return unbracketed(authority.replace(/:\d*$/, ""));
}

/** Returns true for an address, `localhost` and an empty Host. */
export function isLocalName(authority = ""): boolean {
  const host = hostOf(authority);
  return host === "" || host === "localhost" || parseAddress(host) !== undefined;
}

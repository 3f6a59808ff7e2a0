/**
 * Clients of session affinity outlive the replacement of the table: they are read from the old
 * table and written into the new one.
 *
 * @module
 */
import { parseAddress } from "../../../model/values/address.ts";
import { elementCommand } from "../text.ts";
import type { TableSet } from "./sets.ts";

/** A client that stays on an endpoint. */
interface StickyClient {
  readonly address: string;
  readonly timeoutSeconds: number;
  readonly expiresSeconds: number;
}

const SET = /^\s*set (\S+) \{$/;
const CLIENT = /([0-9a-fA-F:.]+) (?:timeout (\S+) )?expires ([0-9a-z]+)/g;

/**
 * Reads the clients from what `nft list sets` prints.
 *
 * @returns clients by the name of their set
 */
export function parseStickyClients(listing: string): Map<string, StickyClient[]> {
  const clients = new Map<string, StickyClient[]>();
  let current: StickyClient[] = [];
  for (const line of listing.split("\n")) {
    const name = SET.exec(line)?.[1];
    if (name !== undefined) clients.set(name, current = []);
    for (const [, text, timeout, expires] of line.matchAll(CLIENT)) {
      const address = parseAddress(text);
      const expiresSeconds = parseNftTime(expires ?? "");
      const timeoutSeconds = parseNftTime(timeout ?? "") || expiresSeconds;
      if (address && expiresSeconds > 0) current.push({ address, timeoutSeconds, expiresSeconds });
    }
  }
  return clients;
}

/**
 * Commands that put the clients of the sets that still exist into the new table.
 *
 * @param listing what `nft list sets` printed for the old table
 * @param sets the affinity sets of the new one
 */
export function renderStickyClients(
  listing: string,
  sets: readonly Pick<TableSet, "name">[],
): string {
  const clients = parseStickyClients(listing);
  return sets.map(({ name }) => {
    const lines = (clients.get(name) ?? []).map((client) =>
      `  ${client.address} timeout ${client.timeoutSeconds}s expires ${client.expiresSeconds}s`
    );
    return lines.length === 0 ? "" : elementCommand("add", { set: name, lines });
  }).join("");
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0 };

/** nft's way to print a time (`2h59m59s980ms`) as whole seconds. */
function parseNftTime(text: string): number {
  let seconds = 0;
  for (const [, number, unit] of text.matchAll(/(\d+)(d|h|ms|m|s)/g)) {
    seconds += Number(number) * (UNIT_SECONDS[unit ?? ""] ?? 0);
  }
  return seconds;
}

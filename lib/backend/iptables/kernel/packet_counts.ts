/**
 * Sums the packet counters of some rules. A rewritten rule counts from 0, so its earlier count is
 * kept here.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { Table } from "../script/names.ts";

/** Packets since the rules were first written, of both families. */
export interface PacketCounts {
  /** Packets dropped because conntrack finds them invalid. */
  readonly invalidDropped: number;
  /** First packets of connections to a node port on 127.0.0.0/8. */
  readonly localhostNodePorts: number;
}

/** A counted rule and its place. */
interface CountedRule {
  readonly table: Table;
  readonly chain: string;
  /** Matches only this rule of its chain. */
  readonly pattern: RegExp;
}

/** Only full scripts write these chains. */
const COUNTED: Readonly<Record<keyof PacketCounts, CountedRule>> = {
  invalidDropped: { table: "filter", chain: "KUBE-FORWARD", pattern: /--ctstate INVALID\b/ },
  localhostNodePorts: {
    table: "nat",
    chain: "KUBE-POSTROUTING",
    pattern: /--ctorigdst 127\.0\.0\.0\/8\b/,
  },
};

/** The names of the counts. */
export const COUNTED_PACKETS = Object.keys(COUNTED) as readonly (keyof PacketCounts)[];

/** Returns the table and chain of a counted rule. */
export function placeOf(what: keyof PacketCounts): Pick<CountedRule, "table" | "chain"> {
  return COUNTED[what];
}

/** Returns the packets of a rule in the output of `iptables -v -S CHAIN`, or `undefined` if it is missing. */
export function countInChain(what: keyof PacketCounts, listing: string): number | undefined {
  const line = listing.split("\n").find((each) => COUNTED[what].pattern.test(each));
  const count = line === undefined ? undefined : /(?:^| )-c (\d+) \d+(?: |$)/.exec(line)?.[1];
  return count === undefined ? undefined : Number(count);
}

/** Returns the packets of a rule in the output of `iptables-save -c`, or 0 if it is missing. */
export function countInSaved(what: keyof PacketCounts, saved: string): number {
  const { table, chain, pattern } = COUNTED[what];
  const start = saved.indexOf(`*${table}\n`);
  const end = saved.indexOf("\nCOMMIT", start);
  if (start < 0) return 0;
  const rule = new RegExp(`^\\[(\\d+):\\d+\\] -A ${chain} (.*)$`, "gm");
  for (
    const [, packets, text = ""] of saved.slice(start, end < 0 ? undefined : end).matchAll(rule)
  ) {
    if (pattern.test(text)) return Number(packets);
  }
  return 0;
}

/** Sums the counts of rules over all rewrites. */
export class PacketSums {
  readonly #before = new Map<string, number>();
  readonly #last = new Map<string, number>();

  /** Notes the current count of a rule. If it fell, another program has rewritten the rule. */
  seen(what: keyof PacketCounts, family: Family, count: number): void {
    const key = `${what} ${family}`;
    const last = this.#last.get(key) ?? 0;
    if (count < last) this.#before.set(key, (this.#before.get(key) ?? 0) + last);
    this.#last.set(key, count);
  }

  /** Notes that a family's rules were rewritten, after counts in the output of `iptables-save -c`. */
  replaced(family: Family, saved: string): void {
    for (const what of COUNTED_PACKETS) {
      const key = `${what} ${family}`;
      this.seen(what, family, countInSaved(what, saved));
      this.#before.set(key, (this.#before.get(key) ?? 0) + (this.#last.get(key) ?? 0));
      this.#last.set(key, 0);
    }
  }

  /** Returns all packets so far. */
  get counts(): PacketCounts {
    const sum = (what: keyof PacketCounts) =>
      [this.#before, this.#last].flatMap((counts) =>
        ([4, 6] as const).map((family) => counts.get(`${what} ${family}`) ?? 0)
      ).reduce((one, other) => one + other, 0);
    return {
      invalidDropped: sum("invalidDropped"),
      localhostNodePorts: sum("localhostNodePorts"),
    };
  }
}

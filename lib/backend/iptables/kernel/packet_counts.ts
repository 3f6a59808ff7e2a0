/**
 * How many packets some rules have met, as the kernel counts them. A rule that is written again counts
 * from nothing: what it had counted is kept here.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { Table } from "../script/names.ts";

/** Packets since the rules were first there, of both families. */
export interface PacketCounts {
  /** Dropped, since conntrack takes them for invalid. */
  readonly invalidDropped: number;
  /** First packets of connections to a node port on 127.0.0.0/8. */
  readonly localhostNodePorts: number;
}

/** A rule whose packets are counted, and where it stands. */
interface CountedRule {
  readonly table: Table;
  readonly chain: string;
  /** What only this rule of its chain says. */
  readonly pattern: RegExp;
}

/** The chains are written by full scripts only. */
const COUNTED: Readonly<Record<keyof PacketCounts, CountedRule>> = {
  invalidDropped: { table: "filter", chain: "KUBE-FORWARD", pattern: /--ctstate INVALID\b/ },
  localhostNodePorts: {
    table: "nat",
    chain: "KUBE-POSTROUTING",
    pattern: /--ctorigdst 127\.0\.0\.0\/8\b/,
  },
};

/** What is counted. */
export const COUNTED_PACKETS = Object.keys(COUNTED) as readonly (keyof PacketCounts)[];

/** The table and the chain of a rule that is counted. */
export function placeOf(what: keyof PacketCounts): Pick<CountedRule, "table" | "chain"> {
  return COUNTED[what];
}

/** The packets of a rule in a chain as `iptables -v -S CHAIN` lists it; `undefined`: it is not there. */
export function countInChain(what: keyof PacketCounts, listing: string): number | undefined {
  const line = listing.split("\n").find((each) => COUNTED[what].pattern.test(each));
  const count = line === undefined ? undefined : /(?:^| )-c (\d+) \d+(?: |$)/.exec(line)?.[1];
  return count === undefined ? undefined : Number(count);
}

/** The packets of a rule in the output of `iptables-save -c`; 0: it is not there. */
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

/** Adds up what rules have counted, however often they are written again. */
export class PacketSums {
  readonly #before = new Map<string, number>();
  readonly #last = new Map<string, number>();

  /** What a rule counts now. Less than before: another program has written it again. */
  seen(what: keyof PacketCounts, family: Family, count: number): void {
    const key = `${what} ${family}`;
    const last = this.#last.get(key) ?? 0;
    if (count < last) this.#before.set(key, (this.#before.get(key) ?? 0) + last);
    this.#last.set(key, count);
  }

  /** The rules of a family were written again; they had counted what `iptables-save -c` says. */
  replaced(family: Family, saved: string): void {
    for (const what of COUNTED_PACKETS) {
      const key = `${what} ${family}`;
      this.seen(what, family, countInSaved(what, saved));
      this.#before.set(key, (this.#before.get(key) ?? 0) + (this.#last.get(key) ?? 0));
      this.#last.set(key, 0);
    }
  }

  /** All packets up to now. */
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

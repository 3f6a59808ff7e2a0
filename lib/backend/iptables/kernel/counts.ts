/**
 * Counts the rules that signpost wrote, and reads the packet counters of some of them.
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { FamilyInput, TableInput } from "../script/ruleset.ts";
import type { Table } from "../script/names.ts";
import { frontendKey, keyInFamily } from "../../../model/cluster/names.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { FrontendCount } from "../../../model/connections.ts";

/** The number of rules of one table, in all and in the last script. */
export interface RuleCount {
  readonly family: Family;
  readonly table: string;
  readonly total: number;
  readonly written: number;
}

/** Counts the rules of one table of one family. */
class TableCount {
  readonly #chains = new Map<string, number>();
  #total = 0;

  /** @returns the number of rules after this input */
  apply({ chains, deleted, inserted, appended, removed }: TableInput): number {
    for (const chain of removed) this.#set(chain, 0);
    for (const [chain, rules] of chains) this.#set(chain, rules.length);
    for (const rule of deleted) this.#add(rule, -1);
    for (const rule of [...inserted, ...appended]) this.#add(rule, 1);
    return this.#total;
  }

  /** @param rule `chain rule` */
  #add(rule: string, step: 1 | -1): void {
    const chain = rule.slice(0, rule.indexOf(" "));
    this.#set(chain, (this.#chains.get(chain) ?? 0) + step);
  }

  #set(chain: string, count: number): void {
    this.#total += count - (this.#chains.get(chain) ?? 0);
    if (count === 0) this.#chains.delete(chain);
    else this.#chains.set(chain, count);
  }
}

/** Counts the rules of all tables. */
export class RuleCounts {
  readonly #tables = new Map<string, TableCount>();
  readonly #counts = new Map<string, RuleCount>();

  /** Returns the counts after the last script. */
  get counts(): Iterable<RuleCount> {
    return this.#counts.values();
  }

  /** Notes an applied script of a family. A full one starts the counts again. */
  applied(kind: "full" | "partial", { family, tables }: FamilyInput): void {
    for (const [table, inputs] of Map.groupBy(tables, (input) => input.table)) {
      const key = `${family} ${table}`;
      const count = kind === "full" ? new TableCount() : this.#tables.get(key) ?? new TableCount();
      this.#tables.set(key, count);
      let [written, total] = [0, 0];
      for (const input of inputs) {
        const { chains, inserted, appended } = input;
        written += inserted.length + appended.length +
          [...chains.values()].reduce((sum, rules) => sum + rules.length, 0);
        total = count.apply(input);
      }
      this.#counts.set(key, { family, table, total, written });
    }
  }
}

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

/** Sums the counts of rules over all rewrites. A rewritten rule counts from 0. */
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

/** The chains of the table `nat` with frontend rules. A connection's first packet meets one of these. */
export const FRONTEND_CHAINS: readonly string[] = ["KUBE-SERVICES", "KUBE-NODEPORTS"];

/** A frontend rule in the output of `iptables -v -S`. Its comment begins with the Service's name. */
const FRONTEND_RULE = new RegExp(
  "^-A KUBE-(?:SERVICES|NODEPORTS) (?:-d ([0-9a-f.:]+)/\\d+ )?-p (tcp|udp|sctp) " +
    '-m comment --comment "?([^ ":]+)[^"]*?"? -m \\w+ --dport (\\d+) ' +
    "-c (\\d+) \\d+ -j KUBE-(?:SVC|SVL|EXT|FW)-",
  "gm",
);

/**
 * Yields the counts in a listing one by one.
 * @param listing the output of `iptables -v -S`
 */
export function* countsIn(family: Family, listing: string): Iterable<FrontendCount> {
  for (const [, address, name, service = "", port, packets] of listing.matchAll(FRONTEND_RULE)) {
    const protocol = name as Protocol;
    const key = frontendKey({ address, protocol, port: Number(port) });
    yield { frontend: keyInFamily(family, key), service, connections: Number(packets) };
  }
}

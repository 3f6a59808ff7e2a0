/**
 * Counts rules and packets, for kube-proxy's metrics of iptables mode and for connections.
 * @module
 */
import { frontendKey, keyInFamily } from "../../model/cluster/names.ts";
import type { Protocol } from "../../model/cluster/objects.ts";
import type { FrontendCount } from "../../model/connections.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { FAMILIES, type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import { boundedReading } from "../../model/values/timing.ts";
import type { BackendMetrics } from "../backend.ts";
import { type Table, TABLES } from "./script/names.ts";
import type { ScriptInput } from "./script/rule.ts";

/** The number of rules of one table, in all and in the last script. */
export interface RuleCount {
  readonly family: Family;
  readonly table: Table;
  readonly total: number;
  readonly written: number;
}

/** Counts the rules of all tables. */
export class RuleCounts {
  readonly #counts = new Map<string, RuleCount>();

  get counts(): Iterable<RuleCount> {
    return this.#counts.values();
  }

  /** Notes an applied script of a family. A full one starts the counts again. */
  applied(kind: "full" | "partial", { family, tables, growth }: ScriptInput): void {
    for (const table of TABLES) {
      const key = `${family} ${table}`;
      const before = kind === "full" ? 0 : this.#counts.get(key)?.total ?? 0;
      let written = 0;
      for (const input of tables.filter((each) => each.table === table)) {
        written += input.inserted.length + input.appended.length;
        for (const rules of input.chains.values()) written += rules.length;
      }
      this.#counts.set(key, { family, table, total: before + growth[table], written });
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

/** The counted rules: the table, the chain, which only full scripts write, and a part of the rule. */
const COUNTED = {
  invalidDropped: { table: "filter", chain: "KUBE-FORWARD", part: "--ctstate INVALID\\b" },
  localhostNodePorts: { table: "nat", chain: "KUBE-POSTROUTING", part: "--ctorigdst 127.0.0.0/8" },
} as const;

const COUNTED_PACKETS = Object.keys(COUNTED) as readonly (keyof PacketCounts)[];

interface CountedRule {
  readonly what: keyof PacketCounts;
  readonly place: { readonly table: Table; readonly chain: string };
}

/** Returns the counts of a family. */
export function countedIn(family: Family): readonly CountedRule[] {
  return COUNTED_PACKETS.filter((what) => what !== "localhostNodePorts" || family === 4)
    .map((what) => ({ what, place: COUNTED[what] }));
}

/**
 * Returns the packets of a counted rule, or `undefined` if it is missing.
 * @param listing the output of `iptables -v -S CHAIN` or `iptables-save -c`
 */
export function countIn(what: keyof PacketCounts, listing: string): number | undefined {
  const { chain, part } = COUNTED[what];
  const rule = new RegExp(
    `^(?:\\[(\\d+):\\d+\\] )?-A ${chain} (?=.*${part})(?:.*-c (\\d+) )?`,
    "m",
  );
  const [, saved, listed] = rule.exec(listing) ?? [];
  const count = saved ?? listed;
  return count === undefined ? undefined : Number(count);
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
      this.seen(what, family, countIn(what, saved) ?? 0);
      this.seen(what, family, 0);
    }
  }

  get counts(): PacketCounts {
    const sum = (what: keyof PacketCounts) =>
      [this.#before, this.#last].flatMap((counts) =>
        FAMILIES.map((family) => counts.get(`${what} ${family}`) ?? 0)
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

/** Yields the counts in outputs of `iptables -v -S` one by one. */
export function* countsIn(
  listings: readonly (readonly [Family, string])[],
): Iterable<FrontendCount> {
  for (const [family, listing] of listings) {
    for (const [, address, name, service = "", port, packets] of listing.matchAll(FRONTEND_RULE)) {
      const protocol = name as Protocol;
      const key = frontendKey({ address, protocol, port: Number(port) });
      yield { frontend: keyInFamily(family, key), service, connections: Number(packets) };
    }
  }
}

interface MetricsOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly dataplane: {
    readonly ruleCounts: Iterable<RuleCount>;
    readonly packets: PacketCounts;
    readPackets(): Promise<void>;
  };
}

const PREFIX = "kubeproxy_sync_proxy_rules_iptables";

/** Returns the metrics. kube-proxy counts packets with nfacct; rule counters need no kernel module. */
export function iptablesMetrics({ clock, dataplane }: MetricsOptions): BackendMetrics {
  const rules = (name: string, help: string, read: (count: RuleCount) => number) => ({
    definition: [`${PREFIX}_${name}`, help] as const,
    labels: ["ip_family", "table"],
    read: () =>
      [...dataplane.ruleCounts].map((count) => ({
        labels: { ip_family: FAMILY_NAMES[count.family], table: count.table },
        value: read(count),
      })),
  });
  const readPackets = boundedReading({
    clock,
    refresh: () => dataplane.readPackets(),
    known: () => dataplane.packets,
  });
  const packets = (name: string, help: string, what: keyof PacketCounts) => ({
    definition: [`kubeproxy_iptables_${name}_packets_total`, help] as const,
    labels: [],
    read: async () => [{ labels: {}, value: (await readPackets())[what] }],
  });
  const failures = (of: "sync" | "partial sync", name: string, help: string) => ({
    of,
    definition: [`${PREFIX}_${name}_failures_total`, help] as const,
  });
  return {
    failures: [
      failures("sync", "restore", "Inputs that iptables-restore refused"),
      failures("partial sync", "partial_restore", "Partial inputs that it refused"),
    ],
    gauges: [
      rules("total", "Rules of signpost", ({ total }) => total),
      rules("last", "Rules written by the last sync", ({ written }) => written),
    ],
    counters: [
      packets(
        "ct_state_invalid_dropped",
        "Packets that were dropped since conntrack takes them for invalid",
        "invalidDropped",
      ),
      packets(
        "localhost_nodeports_accepted",
        "First packets of connections to node ports on the loopback address",
        "localhostNodePorts",
      ),
    ],
  };
}

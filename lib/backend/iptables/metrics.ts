/** Counts rules and packets, for kube-proxy's metrics of iptables mode and for connections. */
import { frontendKey, keyInFamily } from "../../model/cluster/names.ts";
import type { Protocol } from "../../model/cluster/objects.ts";
import type { FrontendCount, RejectReason } from "../../model/connections.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { FAMILIES, type Family, FAMILY_NAMES } from "../../model/values/address.ts";
import { boundedReading } from "../../model/values/timing.ts";
import type { BackendMetrics, ReadMetric } from "../metrics.ts";
import { type Table, TABLES } from "./script/names.ts";
import { countRules, type FamilyInput } from "./script/rule.ts";

interface RuleCount {
  readonly family: Family;
  readonly table: Table;
  readonly total: number;
  readonly written: number;
}

export class RuleCounts {
  readonly #counts = new Map<string, RuleCount>();

  [Symbol.iterator](): Iterator<RuleCount> {
    return this.#counts.values();
  }

  /** Counts an applied script of a family. A full script starts the counts again. */
  applied(kind: "full" | "partial", { family, tables }: FamilyInput): void {
    for (const table of TABLES) {
      const key = `${family} ${table}`;
      let total = kind === "full" ? 0 : this.#counts.get(key)?.total ?? 0;
      let written = 0;
      for (const input of tables.filter((each) => each.table === table)) {
        written += countRules(input);
        total += countRules(input) - input.deleted.length - input.flushed;
      }
      this.#counts.set(key, { family, table, total, written });
    }
  }
}

/** A rule whose packets are counted, in a chain that only full scripts write. */
interface PacketMetric {
  readonly name: string;
  readonly help: string;
  readonly table: Table;
  readonly chain: string;
  /** A part of the rule, as a pattern. */
  readonly part: string;
  readonly families: readonly Family[];
}

/** The counted rules. kube-proxy uses nfacct, but rule counters do not need a kernel module. */
export const PACKET_METRICS: readonly PacketMetric[] = [
  {
    name: "ct_state_invalid_dropped",
    help: "Packets that were dropped since conntrack takes them for invalid",
    table: "filter",
    chain: "KUBE-FORWARD",
    part: "--ctstate INVALID\\b",
    families: FAMILIES,
  },
  {
    name: "localhost_nodeports_accepted",
    help: "First packets of connections to node ports on the loopback address",
    table: "nat",
    chain: "KUBE-POSTROUTING",
    part: "--ctorigdst 127.0.0.0/8",
    families: [4],
  },
];

/** Returns the packets of a counted rule in `iptables -v -S`; `undefined` if it is missing. */
export function countIn(
  { chain, part }: Pick<PacketMetric, "chain" | "part">,
  listing: string,
): number | undefined {
  const rule = new RegExp(`^-A ${chain} (?=.*${part}).*-c (\\d+) `, "m");
  const count = rule.exec(listing)?.[1];
  return count === undefined ? undefined : Number(count);
}

const FIREWALL_CHAIN = "KUBE-PROXY-FIREWALL";

/** The chains with frontend rules and refusals. A connection's first packet meets one such rule of each table. */
export const FRONTEND_CHAINS: readonly (readonly [Table, chain: string])[] = [
  ["nat", "KUBE-SERVICES"],
  ["nat", "KUBE-NODEPORTS"],
  ["filter", "KUBE-SERVICES"],
  ["filter", "KUBE-EXTERNAL-SERVICES"],
  ["filter", FIREWALL_CHAIN],
];

/** A rule of these chains in the output of `iptables -v -S`. Its comment begins with the Service's name. */
const FRONTEND_RULE = new RegExp(
  "^-A (KUBE-[A-Z-]+) (?:-d ([0-9a-f.:]+)/\\d+ )?-p (tcp|udp|sctp) " +
    '-m comment --comment "?([^ ":]+)[^"]*?"? (?:-m addrtype --dst-type LOCAL )?' +
    "-m \\w+ --dport (\\d+) -c (\\d+) \\d+ -j (KUBE-(?:SVC|SVL|EXT|FW)-|REJECT|DROP)",
  "gm",
);

export function* countsIn(
  listings: readonly (readonly [Family, string])[],
): Iterable<FrontendCount> {
  for (const [family, listing] of listings) {
    for (const [, chain, address, name, service = "", ...rest] of listing.matchAll(FRONTEND_RULE)) {
      const [port, packets, target = ""] = rest;
      const protocol = name as Protocol;
      const key = frontendKey({ address, protocol, port: Number(port) });
      const reason = reasonOf(target, chain);
      const connections = Number(packets);
      yield { frontend: keyInFamily(family, key), service, connections, ...reason && { reason } };
    }
  }
}

function reasonOf(target: string, chain: string | undefined): RejectReason | undefined {
  if (target === "REJECT") return "no-endpoints";
  if (target !== "DROP") return undefined;
  return chain === FIREWALL_CHAIN ? "source-range" : "no-local-endpoints";
}

interface MetricsOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly dataplane: {
    readonly ruleCounts: Iterable<RuleCount>;
    packetsOf(metric: string): number;
    readPackets(): Promise<void>;
  };
}

const PREFIX = "kubeproxy_sync_proxy_rules_iptables";

export function iptablesMetrics({ clock, dataplane }: MetricsOptions): BackendMetrics {
  const rules = (name: string, help: string, read: (count: RuleCount) => number): ReadMetric => ({
    type: "gauge",
    definition: [`${PREFIX}_${name}`, help],
    read: () =>
      [...dataplane.ruleCounts].map((count) => ({
        labels: { ip_family: FAMILY_NAMES[count.family], table: count.table },
        value: read(count),
      })),
  });
  const readPackets = boundedReading({
    clock,
    refresh: () => dataplane.readPackets(),
    known: () => {},
  });
  const packets = PACKET_METRICS.map(({ name, help }): ReadMetric => ({
    type: "counter",
    definition: [`kubeproxy_iptables_${name}_packets_total`, help],
    read: async () => {
      await readPackets();
      return [{ labels: {}, value: dataplane.packetsOf(name) }];
    },
  }));
  const failures = (of: "sync" | "partial sync", name: string, help: string) => ({
    of,
    definition: [`${PREFIX}_${name}_failures_total`, help] as const,
  });
  return {
    failures: [
      failures("sync", "restore", "Inputs that iptables-restore refused"),
      failures("partial sync", "partial_restore", "Partial inputs that it refused"),
    ],
    readings: [
      ...packets,
      rules("total", "Rules of signpost", ({ total }) => total),
      rules("last", "Rules written by the last sync", ({ written }) => written),
    ],
  };
}

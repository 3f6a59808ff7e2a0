/**
 * Reads how many packets to node ports on loopback the rules have rejected.
 *
 * @module
 */
import { PROTOCOLS } from "../../model/cluster/objects.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { FAMILIES, FAMILY_NAMES } from "../../model/values/address.ts";
import { boundedReading } from "../../model/values/timing.ts";
import type { CounterMetric, Sample } from "../backend.ts";
import type { Nft } from "./kernel/nft.ts";
import { localhostRejectChain } from "./script/service.ts";
import { tableSet } from "./script/sets.ts";

/** Inputs of `localhostRejects`. */
export interface LocalhostRejectsOptions {
  readonly nft: Pick<Nft, "listStructure">;
  /** Returns the number of elements of each map and set. */
  readonly elements: () => ReadonlyMap<string, number>;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

const CHAINS = FAMILIES.flatMap((family) =>
  PROTOCOLS.map((protocol) => ({
    chain: localhostRejectChain(family, protocol),
    labels: { ip_family: FAMILY_NAMES[family], protocol: protocol.toUpperCase() },
  }))
);

const MAPS = FAMILIES.map((family) => tableSet("localhostRejects", { family }).name);

/** Counts of a chain; a chain that is written again counts from 0. */
interface Count {
  readonly sum: number;
  readonly last: number;
}

/** Makes the metric. The kernel is asked only while a node port is rejected. */
export function localhostRejects(
  { nft, elements, clock }: LocalhostRejectsOptions,
): CounterMetric {
  const counts = new Map<string, Count>();
  const refresh = async () => {
    if (!MAPS.some((map) => elements().has(map))) return;
    const held = rejectedPackets(await nft.listStructure());
    for (const [chain, packets] of held) {
      const { sum, last } = counts.get(chain) ?? { sum: 0, last: 0 };
      counts.set(chain, { sum: sum + packets - (packets < last ? 0 : last), last: packets });
    }
  };
  const known = (): Sample[] =>
    CHAINS.map(({ chain, labels }) => ({ labels, value: counts.get(chain)?.sum ?? 0 }));
  return {
    definition: [
      "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
      "Packets to node ports on loopback that the rules rejected",
    ],
    labels: ["ip_family", "protocol"],
    read: boundedReading({ clock, refresh, known }),
  };
}

/** Reads the packets that each chain has rejected from the listing of a table. */
export function rejectedPackets(listing: string): ReadonlyMap<string, number> {
  return new Map(CHAINS.flatMap(({ chain }) => {
    const pattern = new RegExp(`^\\tchain ${chain} \\{\\n\\t\\tcounter packets (\\d+) `, "m");
    const packets = pattern.exec(listing)?.[1];
    return packets === undefined ? [] : [[chain, Number(packets)] as const];
  }));
}

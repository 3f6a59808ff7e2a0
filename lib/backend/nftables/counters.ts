/** Reads the counters of frontends, and of rejected node ports on loopback. */
import type { ConnectionCounters, FrontendCount, RejectReason } from "../../model/connections.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { NftablesDataplane } from "./dataplane.ts";
import type { Nft } from "./nft.ts";
import { keyInFamily } from "../../model/cluster/names.ts";
import { counts, parseKey, printKey, setNamed, type SetRole, tableSet } from "./sets.ts";
import { PROTOCOLS } from "../../model/cluster/objects.ts";
import { FAMILIES, FAMILY_NAMES } from "../../model/values/address.ts";
import { boundedReading } from "../../model/values/timing.ts";
import { CounterSums, type ReadMetric } from "../metrics.ts";
import { localhostRejectChain } from "./service.ts";

/** Counts connections by the elements that lead to the frontends' chains, or that refuse. */
export function elementCounters({ nft, dataplane }: {
  readonly nft: Pick<Nft, "listSet">;
  readonly dataplane: Pick<NftablesDataplane, "readDuringSyncs" | "elements" | "hasWritten">;
}): ConnectionCounters {
  const list = async () => {
    const listings: (readonly [map: string, listing: string])[] = [];
    for (const name of countingMaps(dataplane.elements)) {
      listings.push([name, await nft.listSet({ kind: "map", name })]);
    }
    return listings;
  };
  return {
    /** False for a large table that was read back: its elements have counted on. */
    get areOurs() {
      return dataplane.hasWritten;
    },
    read: async () => {
      const listings = await dataplane.readDuringSyncs(list);
      return listings.values().flatMap(([map, listing]) => countsIn(map, listing));
    },
  };
}

/** Returns the maps whose elements count connections: nat chains see the first packet of each, once. */
export function countingMaps(elements: ReadonlyMap<string, number>): string[] {
  return [...elements.keys()].filter((name) => {
    const set = setNamed(name);
    return set !== undefined && counts(set);
  });
}

/** Matches an element with a counter, the Service's name in the comment, and its verdict. */
const COUNTED =
  /(\S+ \. \S+(?: \. \S+)?) counter packets (\d+) bytes \d+ comment "([^":]+)[^"]*" : (\w+)/g;

export function* countsIn(map: string, listing: string): Iterable<FrontendCount> {
  const set = setNamed(map);
  if (set === undefined || !counts(set) || set.family === undefined) return;
  for (const [, text = "", packets, service = "", verdict] of listing.matchAll(COUNTED)) {
    const key = parseKey(set, text);
    if (!key) continue;
    const frontend = keyInFamily(set.family, printKey(key));
    const reason = reasonOf(set.role, verdict);
    yield { frontend, service, connections: Number(packets), ...reason && { reason } };
  }
}

function reasonOf(role: SetRole, verdict: string | undefined): RejectReason | undefined {
  if (role === "services") return undefined;
  if (role === "firewallDrops") return "source-range";
  return verdict === "drop" ? "no-local-endpoints" : "no-endpoints";
}

interface LocalhostRejectsOptions {
  readonly nft: Pick<Nft, "listStructure">;
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

/** Makes the metric. The kernel is asked only while a node port is rejected. */
export function localhostRejects({ nft, elements, clock }: LocalhostRejectsOptions): ReadMetric {
  const sums = new CounterSums();
  const refresh = async () => {
    if (!MAPS.some((map) => elements().has(map))) return;
    for (const [chain, packets] of rejectedPackets(await nft.listStructure())) {
      sums.seen(chain, packets);
    }
  };
  const known = () => CHAINS.map(({ chain, labels }) => ({ labels, value: sums.sumOf(chain) }));
  return {
    type: "counter",
    definition: [
      "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
      "Packets to node ports on loopback that the rules rejected",
    ],
    read: boundedReading({ clock, refresh, known }),
  };
}

/** Matches a chain that rejects node ports on loopback, with its counter. */
const REJECTING = /^\tchain (reject-localhost\S+) \{\n\t\tcounter packets (\d+) /gm;

export function rejectedPackets(listing: string): ReadonlyMap<string, number> {
  return new Map(
    [...listing.matchAll(REJECTING)].map(([, chain = "", packets]) => [chain, Number(packets)]),
  );
}

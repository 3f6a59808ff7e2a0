/** Implements the nftables mode with one table for all Services. */
import { finding } from "../../findings/catalog.ts";
import type { Dataplane } from "../../model/kernel/dataplane.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import { FAMILIES, FAMILY_NAMES } from "../../model/values/address.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { desiredNode } from "../../policy/node.ts";
import {
  type Backend,
  type BackendOptions,
  familiesBut,
  missingFamilies,
  type Probed,
  type RuleReader,
} from "../backend.ts";
import { legacyChains, readRoutes } from "../foreign_filters.ts";
import { ProxyTakeOver } from "../take_over.ts";
import { NAT_CHAINS } from "./layout.ts";
import { renderRewrites } from "./text.ts";
import { NftablesDataplane, type NftScript } from "./dataplane.ts";
import { Devices } from "./devices.ts";
import { DriftWatch } from "./watch.ts";
import { Look, repairScript } from "./repair.ts";
import { Touched } from "./transactions.ts";
import { Marks, Nft } from "./nft.ts";
import { probe } from "./probe.ts";
import { changesFrom, nftablesNames } from "./changes.ts";
import { foreignChains, parsingListing } from "./read.ts";
import { nftablesRules, readPorts } from "./kernel_rules.ts";
import type { ConnectionCounters, FrontendCount, RejectReason } from "../../model/connections.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { keyInFamily } from "../../model/cluster/names.ts";
import { isCounting, parseKey, printKey, setNamed, type SetRole, tableSet } from "./sets.ts";
import { PROTOCOLS } from "../../model/cluster/objects.ts";
import { boundedReading } from "../../model/values/timing.ts";
import { CounterSums, type ReadMetric } from "../metrics.ts";
import { localhostRejectChain } from "./service.ts";

/** The most elements of a step. It takes twice as long as a step of one element, and other changes wait for it. */
const SHARE = 500;

const TRAITS: ModeTraits = {
  name: "nftables",
  primaryNodePorts: true,
  localhostNodePorts: "listeners",
  guardsClusterIPs: true,
  refuses: new Map(),
  share: SHARE,
  parts: "elements and rules",
};

const METRICS = "kubeproxy_sync_proxy_rules_nftables";

/** Features that all Services can do without, each with a finding. */
const UNAVAILABLE = [
  ["connection-counters", "connections-not-counted", "connections are not counted by Service"],
  ["acceleration", "acceleration-unavailable", "long connections do not take the fast path"],
] as const;

export function nftablesBackend(options: BackendOptions): Backend {
  const { runtime, logger, configuration: { signpost: { acceleration } } } = options;
  const { clock } = runtime;
  // Below 2^31, which leaves room for as many marks again.
  const marks = new Marks((crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1);
  const nft = new Nft(runtime.runner, marks);
  const foreignRules = new ProxyTakeOver({ ...runtime, ...options, variant: undefined });
  const prologue = () => foreignRules.prologue();
  const table = new NftablesDataplane(nft, { share: SHARE, prologue, clock, logger });
  const devices = new Devices({ ...runtime, nft, logger, settings: acceleration });
  return {
    traits: TRAITS,
    probe: () => probeNft(nft, options),
    dataplane: maintainedTable({ ...options, nft, marks, table, devices }),
    rules: ruleReader(nft, options),
    foreignRules,
    connections: elementCounters({ nft, dataplane: table }),
    metrics: {
      failures: [{
        of: "sync",
        definition: [`${METRICS}_sync_failures_total`, "Transactions that nft refused"],
      }],
      readings: [
        {
          type: "counter",
          definition: [
            `${METRICS}_cleanup_failures_total`,
            "Removals of leftovers that nft refused",
          ],
          read: () =>
            familiesBut(missingFamilies(runtime)).map((family) => ({
              labels: { ip_family: FAMILY_NAMES[family] },
              value: foreignRules.failures,
            })),
        },
        localhostRejects({ nft, elements: () => table.elements, clock }),
        {
          type: "gauge",
          definition: ["signpost_elements", "Elements of a map or set"],
          read: () => [...table.elements].map(([map, value]) => ({ labels: { map }, value })),
        },
        ...acceleration.interfaces.length === 0 ? [] : [devices.gauge],
      ],
    },
    get acceleration() {
      return devices.summary;
    },
  };
}

async function probeNft(nft: Nft, { configuration, runtime }: BackendOptions): Promise<Probed> {
  const missing = missingFamilies(runtime);
  const node = desiredNode({
    configuration,
    traits: TRAITS,
    node: undefined,
    serviceCIDRs: [],
    ipFamilies: familiesBut(missing),
  });
  const version = nft.version();
  // If both fail, the probe's error says more.
  version.catch(() => {});
  const refusedFeatures = await probe(nft, { node, kernel: runtime.osRelease() });
  return {
    version: await version,
    missing,
    refusedFeatures,
    findings: UNAVAILABLE.flatMap(([feature, id, what]) => {
      const reason = refusedFeatures.get(feature);
      return reason === undefined
        ? []
        : [finding(id, { what: `${what}: ${reason}`, where: "nft" })];
    }),
    choice: "",
  };
}

/** Adds to the table the devices of its flowtable, and repairs of drift. */
function maintainedTable(
  { configuration, runtime, logger, ...parts }: BackendOptions & {
    readonly nft: Nft;
    readonly marks: Marks;
    readonly table: NftablesDataplane;
    readonly devices: Devices;
  },
): Dataplane<NftScript> {
  const { nft, table, devices } = parts;
  const { streamer, clock } = runtime;
  const touched = new Touched();
  return {
    full: (state) => table.full(state),
    changing: (change, state) => table.changing(change, state),
    get isUnfinished() {
      return table.isUnfinished;
    },
    get progress() {
      return table.progress;
    },
    async apply(script, checkpoint) {
      // A full script replaces or compares what other programs changed before.
      if (script.kind === "full") touched.take();
      await table.apply(script, checkpoint);
      if (script.kind === "full") devices.replaced();
    },
    async repair(applied) {
      const script = await repairScript({ nft, dataplane: table, touched, clock }, applied);
      // The script may write the flowtable again, without devices.
      devices.replaced();
      return script;
    },
    async watchDrift({ desired, onDrift, onChange, signal }) {
      const watch = new DriftWatch({
        ...parts,
        streamer,
        look: new Look({ nft, dataplane: table, desired, clock }),
        touched,
        isLarge: () => table.isLarge,
        clock,
        logger,
        checkPeriod: configuration.nftables.syncPeriod,
        onDrift,
        onMissed: onChange,
      });
      nft.keepReady(signal);
      const isAccelerated = desired.node.acceleration !== undefined;
      await Promise.all([
        watch.run(signal),
        ...isAccelerated ? [devices.follow(signal)] : [],
      ]);
    },
    async stepBehind() {
      await nft.apply(renderRewrites(NAT_CHAINS).join(""));
    },
  };
}

function ruleReader(nft: Nft, { runtime }: BackendOptions): RuleReader {
  return {
    describe: nftablesNames,
    changesFrom,
    async read(about) {
      const held = about && await readPorts(nft, about) ||
        atOnce(parsingListing(await nft.listTable()));
      return nftablesRules(held);
    },
    async readRuleset() {
      const unreadable = await nft.findUnreadable();
      const chains = unreadable ? [] : foreignChains(await nft.listRuleset());
      const legacy = await legacyChains(runtime);
      const routes = await readRoutes(runtime.runner);
      return { unreadable, chains: [...chains, ...legacy], routes };
    },
  };
}

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
    /** False for a large table that was read back: its elements counted before. */
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
    return set !== undefined && isCounting(set);
  });
}

/** Matches an element with a counter, the Service's name in the comment, and its verdict. */
const COUNTED =
  /(\S+ \. \S+(?: \. \S+)?) counter packets (\d+) bytes \d+ comment "([^":]+)[^"]*" : (\w+)/g;

export function* countsIn(map: string, listing: string): Iterable<FrontendCount> {
  const set = setNamed(map);
  if (set === undefined || !isCounting(set) || set.family === undefined) return;
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

/** Makes the metric. It reads the kernel only while a node port is rejected. */
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

/** Implements the nftables mode with one table for all Services. */
import { finding } from "../../findings/catalog.ts";
import type { Dataplane } from "../../model/kernel/dataplane.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import { FAMILY_NAMES } from "../../model/values/address.ts";
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
import { elementCounters, localhostRejects } from "./counters.ts";
import { NftablesDataplane, type NftScript } from "./dataplane.ts";
import { Devices } from "./devices.ts";
import { DriftWatch } from "./watch.ts";
import { Look, repairScript } from "./repair.ts";
import { Touched } from "./transactions.ts";
import { Marks, Nft } from "./nft.ts";
import { probe } from "./probe.ts";
import { changesFrom, nftablesNames } from "./changes.ts";
import { foreignChains, parsingListing } from "./read.ts";
import { heldPorts, nftablesRules } from "./kernel_rules.ts";

/** A step of so many elements takes twice as long as one of a single element, and others wait for it. */
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
  const marks = new Marks(randomMark());
  const nft = new Nft(runtime.runner, marks);
  const foreignRules = new ProxyTakeOver({ ...runtime, ...options, variant: undefined });
  const prologue = () => foreignRules.prologue();
  const table = new NftablesDataplane(nft, { share: SHARE, prologue, clock, logger });
  const devices = new Devices({ ...runtime, nft, logger, settings: acceleration });
  return {
    traits: TRAITS,
    probe: () => probeNft(nft, options),
    dataplane: keptTable({ ...options, nft, marks, table, devices }),
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
  // Where nft can do neither, the probe says more of it.
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

/** Adds to the table of all services what keeps it: devices, and the drift that other programs cause. */
function keptTable(
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
      const held = about && await heldPorts(nft, about) ||
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

/** Returns a mark below 2^31, which leaves room for as many marks again. */
function randomMark(): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;
}

/** Implements the nftables mode with one table for all Services. */
import { finding } from "../../findings/catalog.ts";
import type { AccelerationSummary } from "../../model/status.ts";
import type { ConnectionCounters } from "../../model/connections.ts";
import type { DesiredState } from "../../model/kernel/desired.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import type { RulesetFacts } from "../../findings/facts.ts";
import { FAMILY_NAMES } from "../../model/values/address.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { desiredNode } from "../../policy/node.ts";
import {
  type Backend,
  type BackendOptions,
  type DriftOptions,
  familiesBut,
  type KernelRules,
  missingFamilies,
  type PortsOfNode,
  type Probed,
} from "../backend.ts";
import { legacyChains, readRoutes } from "../foreign_filters.ts";
import type { BackendMetrics } from "../metrics.ts";
import { HandOver } from "../take_over.ts";
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

export class NftablesBackend extends NftablesDataplane implements Backend<NftScript> {
  readonly traits = TRAITS;
  readonly metrics: BackendMetrics;
  readonly foreignRules: HandOver;
  readonly describe = nftablesNames;
  readonly changesFrom = changesFrom;
  readonly connections: ConnectionCounters;
  readonly #options: BackendOptions;
  readonly #nft: Nft;
  readonly #marks: Marks;
  readonly #touched = new Touched();
  readonly #devices: Devices;

  constructor(options: BackendOptions) {
    const { runtime, logger, configuration: { signpost: { acceleration } } } = options;
    const marks = new Marks(randomMark());
    const nft = new Nft(runtime.runner, marks);
    const foreignRules = new HandOver({ ...runtime, ...options, variant: undefined });
    const { clock } = runtime;
    super(nft, { share: SHARE, prologue: () => foreignRules.prologue(), clock, logger });
    this.#options = options;
    this.#nft = nft;
    this.#marks = marks;
    this.foreignRules = foreignRules;
    this.#devices = new Devices({ ...runtime, nft, logger, settings: acceleration });
    this.connections = elementCounters({ nft, dataplane: this });
    this.metrics = {
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
        localhostRejects({ nft, elements: () => this.elements, clock }),
        {
          type: "gauge",
          definition: ["signpost_elements", "Elements of a map or set"],
          read: () => [...this.elements].map(([map, value]) => ({ labels: { map }, value })),
        },
        ...acceleration.interfaces.length === 0 ? [] : [this.#devices.gauge],
      ],
    };
  }

  async probe(): Promise<Probed> {
    const { configuration, runtime } = this.#options;
    const missing = missingFamilies(runtime);
    const node = desiredNode({
      configuration,
      traits: TRAITS,
      node: undefined,
      serviceCIDRs: [],
      ipFamilies: familiesBut(missing),
    });
    const version = this.#nft.version();
    // Where nft can do neither, the probe says more of it.
    version.catch(() => {});
    const refusedFeatures = await probe(this.#nft, { node, kernel: runtime.osRelease() });
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

  get acceleration(): AccelerationSummary | undefined {
    return this.#devices.summary;
  }

  override async apply(script: NftScript, checkpoint?: () => void): Promise<void> {
    // A full script replaces or compares what other programs changed before.
    if (script.kind === "full") this.#touched.take();
    await super.apply(script, checkpoint);
    if (script.kind === "full") this.#devices.replaced();
  }

  async repair(applied: DesiredState): Promise<NftScript | undefined> {
    const { clock } = this.#options.runtime;
    const script = await repairScript(
      { nft: this.#nft, dataplane: this, touched: this.#touched, clock },
      applied,
    );
    // The script may write the flowtable again, without devices.
    this.#devices.replaced();
    return script;
  }

  async watchDrift({ desired, onDrift, onChange, signal }: DriftOptions): Promise<void> {
    const { configuration, runtime: { streamer, clock }, logger } = this.#options;
    const nft = this.#nft;
    const watch = new DriftWatch({
      streamer,
      nft,
      marks: this.#marks,
      look: new Look({ nft, dataplane: this, desired, clock }),
      touched: this.#touched,
      isLarge: () => this.isLarge,
      clock,
      logger,
      checkPeriod: configuration.nftables.syncPeriod,
      onDrift,
      onMissed: onChange,
    });
    const isAccelerated = desired.node.acceleration !== undefined;
    await Promise.all([
      watch.run(signal),
      ...isAccelerated ? [this.#devices.follow(signal)] : [],
    ]);
  }

  async read(about?: PortsOfNode): Promise<KernelRules> {
    const held = about && await heldPorts(this.#nft, about) ||
      atOnce(parsingListing(await this.#nft.listTable()));
    return nftablesRules(held);
  }

  async readRuleset(): Promise<RulesetFacts> {
    const unreadable = await this.#nft.findUnreadable();
    const chains = unreadable ? [] : foreignChains(await this.#nft.listRuleset());
    const { runtime } = this.#options;
    const legacy = await legacyChains(runtime);
    const routes = await readRoutes(runtime.runner);
    return { unreadable, chains: [...chains, ...legacy], routes };
  }

  async stepBehind(): Promise<void> {
    await this.#nft.apply(renderRewrites(NAT_CHAINS).join(""));
  }
}

/** Returns a mark below 2^31, which leaves room for as many marks again. */
function randomMark(): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;
}

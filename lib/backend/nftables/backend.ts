/** The nftables mode: one table for all Services. */
import { finding } from "../../findings/catalog.ts";
import type { AccelerationSummary } from "../../model/status.ts";
import type { ConnectionCounters } from "../../model/connections.ts";
import { ApplyError, type Progress } from "../../model/kernel/dataplane.ts";
import type { DesiredState, StateChange } from "../../model/kernel/desired.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import type { RulesetFacts } from "../../findings/facts.ts";
import { type Family, FAMILY_NAMES } from "../../model/values/address.ts";
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
import { legacyChains } from "../foreign_filters.ts";
import type { BackendMetrics, ReadMetric } from "../metrics.ts";
import { type CleanupOptions, HandOver } from "../take_over.ts";
import { NAT_CHAINS } from "./layout.ts";
import { renderRewrites } from "./text.ts";
import { ElementCounters, localhostRejects, type LocalhostRejectsOptions } from "./counters.ts";
import { NftablesDataplane, type NftScript } from "./dataplane.ts";
import { Devices } from "./devices.ts";
import { DriftWatch } from "./watch.ts";
import { Look, repairScript } from "./repair.ts";
import { Marks, Touched } from "./transactions.ts";
import { deleteTables, KUBE_PROXY_TABLES, Nft, OWN_TABLES, removeTables } from "./nft.ts";
import { probe } from "./probe.ts";
import { changesFrom, nftablesNames } from "./changes.ts";
import { foreignChains, parsingListing } from "./read.ts";
import { heldPorts, nftablesRules } from "./kernel_rules.ts";

/** nft and the kernel take 30 ms for so many elements of one step. */
const SHARE = 2_000;

const TRAITS: ModeTraits = {
  name: "nftables",
  primaryNodePorts: true,
  localhostNodePorts: "listeners",
  guardsClusterIPs: true,
  refuses: new Map(),
  share: SHARE,
  parts: "elements and rules",
};

export class NftablesBackend implements Backend<NftScript> {
  readonly traits = TRAITS;
  readonly metrics: BackendMetrics;
  readonly foreignRules: HandOver;
  readonly describe = nftablesNames;
  readonly changesFrom = changesFrom;
  readonly #options: BackendOptions;
  readonly #nft: Nft;
  readonly #marks = new Marks(randomMark());
  readonly #touched = new Touched();
  readonly #dataplane: NftablesDataplane;
  readonly #devices: Devices;
  readonly connections: ConnectionCounters;

  constructor(options: BackendOptions) {
    this.#options = options;
    this.#nft = new Nft(options.runtime.runner, this.#marks);
    this.foreignRules = new HandOver({ ...options.runtime, ...options, variant: undefined });
    this.#dataplane = new NftablesDataplane(this.#nft, {
      share: SHARE,
      prologue: () => this.foreignRules.prologue(),
      clock: options.runtime.clock,
      logger: options.logger,
    });
    this.#devices = new Devices({
      ...options.runtime,
      // One without marks: the monitor passes over changes of devices.
      nft: new Nft(options.runtime.runner),
      logger: options.logger,
      settings: options.configuration.signpost.acceleration,
    });
    this.connections = new ElementCounters({
      ...options.runtime,
      nft: this.#nft,
      dataplane: this.#dataplane,
    });
    this.metrics = nftablesMetrics({
      nft: this.#nft,
      elements: () => this.#dataplane.elements,
      accelerated: options.configuration.signpost.acceleration.interfaces.length === 0
        ? []
        : [this.#devices.gauge],
      clock: options.runtime.clock,
      families: () => familiesBut(missingFamilies(options.runtime)),
      failures: () => this.foreignRules.failures,
    });
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
    const uncounted = refusedFeatures.get("connection-counters");
    const notAccelerated = refusedFeatures.get("acceleration");
    return {
      version: await version,
      missing,
      refusedFeatures,
      findings: [
        ...uncounted === undefined ? [] : [finding("connections-not-counted", {
          what: `connections are not counted by Service: ${uncounted}`,
          where: "nft",
        })],
        ...notAccelerated === undefined ? [] : [finding("acceleration-unavailable", {
          what: `long connections do not take the fast path: ${notAccelerated}`,
          where: "nft",
        })],
      ],
      choice: "",
    };
  }

  get progress(): Progress | undefined {
    return this.#dataplane.progress;
  }

  get isUnfinished(): boolean {
    return this.#dataplane.isUnfinished;
  }

  get acceleration(): AccelerationSummary | undefined {
    return this.#devices.summary;
  }

  full(state: DesiredState): NftScript {
    return this.#dataplane.full(state);
  }

  changing(
    change: StateChange,
    state: DesiredState,
  ): Generator<undefined, NftScript | undefined> {
    return this.#dataplane.changing(change, state);
  }

  async apply(script: NftScript, checkpoint?: () => void): Promise<void> {
    // What others did before is read back, or replaced.
    if (script.kind === "full") this.#touched.clear();
    await this.#dataplane.apply(script, checkpoint);
    if (script.kind === "full") this.#devices.replaced();
  }

  async repair(applied: DesiredState): Promise<NftScript | undefined> {
    const [nft, dataplane, touched] = [this.#nft, this.#dataplane, this.#touched];
    const { clock } = this.#options.runtime;
    const script = await repairScript({ nft, dataplane, touched, clock }, applied);
    // The script may write the flowtable again, without devices.
    this.#devices.replaced();
    return script;
  }

  async watchDrift({ desired, onDrift, onChange, signal }: DriftOptions): Promise<void> {
    const { configuration, runtime: { streamer, clock }, logger } = this.#options;
    const [nft, dataplane] = [this.#nft, this.#dataplane];
    const watch = new DriftWatch({
      streamer,
      nft,
      marks: this.#marks,
      look: new Look({ nft, dataplane, desired, clock }),
      touched: this.#touched,
      isLarge: () => dataplane.isLarge,
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
    const nft = await this.#nft.version();
    const unreadable = await this.#nft.unreadableTables();
    const chains = unreadable.length > 0 ? [] : foreignChains(await this.#nft.listRuleset());
    const legacy = await legacyChains(this.#options.runtime.runner);
    return { nft, unreadable, chains: [...chains, ...legacy] };
  }

  async stepBehind(): Promise<void> {
    await this.#nft.apply(renderRewrites(NAT_CHAINS).join(""));
  }

  async cleanup({ kubeProxy, dryRun, removed }: CleanupOptions): Promise<ApplyError[]> {
    const tables = kubeProxy ? [...OWN_TABLES, ...KUBE_PROXY_TABLES] : OWN_TABLES;
    const { logger } = this.#options;
    try {
      const script = dryRun
        ? await deleteTables(this.#nft, tables)
        : await removeTables(this.#nft, { tables, logger });
      if (script === "") return [];
      const commands = script.trim().replaceAll("\n", ", ");
      await removed({
        message: "removed from nftables",
        details: { commands },
        script: `# nft -f -\n${script}`,
      });
      return [];
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      return error.failure === "program-missing" ? [] : [error];
    }
  }
}

/** Below 2^31: there is room for as many marks again. */
function randomMark(): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;
}

function nftablesMetrics(
  { accelerated, families, failures, ...options }: LocalhostRejectsOptions & {
    readonly accelerated: readonly ReadMetric[];
    readonly families: () => readonly Family[];
    /** Returns the number of removals of leftovers that failed. */
    readonly failures: () => number;
  },
): BackendMetrics {
  const prefix = "kubeproxy_sync_proxy_rules_nftables";
  return {
    failures: [
      {
        of: "sync",
        definition: [`${prefix}_sync_failures_total`, "Transactions that nft refused"],
      },
    ],
    readings: [
      {
        type: "counter",
        definition: [`${prefix}_cleanup_failures_total`, "Removals of leftovers that nft refused"],
        labels: ["ip_family"],
        read: () =>
          families().map((family) => ({
            labels: { ip_family: FAMILY_NAMES[family] },
            value: failures(),
          })),
      },
      localhostRejects(options),
      {
        type: "gauge",
        definition: ["signpost_elements", "Elements of a map or set"],
        labels: ["map"],
        read: () => [...options.elements()].map(([map, value]) => ({ labels: { map }, value })),
      },
      ...accelerated,
    ],
  };
}

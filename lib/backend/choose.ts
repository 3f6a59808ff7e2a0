/**
 * Chooses how rules get into the kernel, and sees that it can be done.
 *
 * @module
 */
import { desiredNode } from "../policy/node.ts";
import { findIptables } from "./iptables/kernel/backend.ts";
import { IptablesDataplane } from "./iptables/dataplane.ts";
import type { PacketCounts } from "./iptables/kernel/packet_counts.ts";
import { packetReader } from "./iptables/packet_reader.ts";
import type { Family } from "../model/values/address.ts";
import { openModeWarning } from "../config/checks/open_mode.ts";
import type { Configuration } from "../model/configuration.ts";
import { ApplyError, type Dataplane, type Script } from "../model/kernel/dataplane.ts";
import type { RefusedFeatures } from "../model/kernel/features.ts";
import type { DesiredState } from "../model/kernel/desired.ts";
import type { Drift } from "../model/kernel/drift.ts";
import type { Logger } from "../model/ports/ports.ts";
import { NftablesDataplane } from "./nftables/dataplane.ts";
import { DriftWatch } from "./nftables/drift/drift.ts";
import { Nft } from "./nftables/kernel/nft.ts";
import { Look } from "./nftables/drift/look.ts";
import { Marks } from "./nftables/drift/marks.ts";
import { repairScript } from "./nftables/drift/repair.ts";
import { Touched } from "./nftables/drift/touched.ts";
import { probe } from "./nftables/kernel/probe.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { routeLocalnet } from "./route_localnet.ts";
import { familiesBut, type MissingFamilies, missingFamilies } from "./ip_families.ts";
import { FatalError } from "../model/values/fatal.ts";
import { HandOver } from "./take_over.ts";

/** A way to follow what others do to our rules. */
export interface DriftOptions {
  /** The state that the kernel is held to. */
  readonly desired: DesiredState;
  /** Called with what another program has changed. */
  readonly onDrift: (drift: Drift) => void;
  /** Called with the reason where a setting of the node has changed that the rules go by. */
  readonly onChange: (reason: string) => void;
  readonly signal: AbortSignal;
}

/** Takes how much the kernel holds of signpost. */
export interface KernelCounts {
  /** Number of elements (or rules) by the name of their map, set or chain; the complete list. */
  elements(counts: ReadonlyMap<string, number>): void;
  /** Rules of one table and family, iptables mode: all of them, and those of the last sync. */
  iptablesRules(
    family: Family,
    rules: { readonly table: string; readonly total: number; readonly written: number },
  ): void;
}

/** The dataplane in use. */
export interface OpenDataplane {
  readonly mode: "nftables" | "iptables";
  readonly dataplane: Dataplane;
  /** The version of the program that writes the rules. */
  readonly version: string;
  readonly handOver: HandOver;
  /** The families that no rules are written for. */
  readonly missing: MissingFamilies;
  /** What only some Services need, and nft or the kernel refuses. */
  readonly refusedFeatures: RefusedFeatures;
  /** Reads how many packets some rules have met (iptables mode); never rejects, and takes seconds at most. */
  readonly packetCounts?: () => Promise<PacketCounts>;
  /** Tells the metrics how much the kernel holds of us. */
  record(metrics: KernelCounts): void;
  /**
   * A script of only what differs from the state that was applied last; `undefined`: everything has
   * to be written. No script may be under way. Never rejects with an `ApplyError`.
   */
  readonly repair?: (applied: DesiredState) => Promise<Script | undefined>;
  /** Notices changes by others, until the signal aborts. */
  watchDrift(options: DriftOptions): Promise<void>;
}

/** What it takes to open a dataplane. */
export interface OpenOptions {
  readonly configuration: Configuration;
  readonly runtime: Pick<Runtime, "runner" | "streamer" | "clock" | "hasIpv6" | "osRelease">;
  readonly logger: Logger;
}

/** With what the node's kernel lacks. */
type NodeOptions = OpenOptions & { readonly missing: MissingFamilies };

/**
 * Opens the dataplane of the configured mode; where none is set, nftables if this kernel and this
 * nft can carry the rules, else iptables.
 *
 * @throws {FatalError} that says what is missing
 */
export async function openDataplane(given: OpenOptions): Promise<OpenDataplane> {
  const { mode } = given.configuration;
  const missing = missingFamilies(given.runtime);
  for (const [family, reason] of missing) given.logger.info(`no IPv${family} rules: ${reason}`);
  const options = { ...given, missing };
  try {
    if (mode === "iptables") return await openIptables(options);
    if (mode === "nftables") return await openNftables(options);
    return await openEither(options);
  } catch (error) {
    throw error instanceof ApplyError ? new FatalError(error.message, { cause: error }) : error;
  }
}

async function openEither(options: NodeOptions): Promise<OpenDataplane> {
  try {
    const opened = await openNftables(options);
    const warning = openModeWarning(options.configuration);
    if (warning !== undefined) options.logger.warn(warning);
    return opened;
  } catch (error) {
    // What fails for the moment only is no reason to change the mode for good.
    if (!(error instanceof ApplyError) || error.failure === "program-failed") throw error;
    const opened = await openIptables(options).catch((other: unknown) => {
      if (!(other instanceof ApplyError)) throw other;
      const message =
        `neither nftables nor iptables can be used: ${error.message}; ${other.message}`;
      throw new ApplyError(error.failure, message, { cause: error });
    });
    options.logger.warn(`iptables is used, since nftables cannot be: ${error.message}`);
    return opened;
  }
}

async function openNftables(
  { configuration, runtime, logger, missing }: NodeOptions,
): Promise<OpenDataplane> {
  const nft = new Nft(runtime.runner);
  const mode = "nftables";
  const inputs = { configuration, mode, node: undefined, serviceCIDRs: [] } as const;
  const refusedFeatures = await probe(nft, {
    node: desiredNode({ ...inputs, ipFamilies: familiesBut(missing) }),
    kernel: runtime.osRelease(),
  });
  const marks = new Marks(randomMark());
  const touched = new Touched();
  const handOver = new HandOver({ mode, backend: undefined, runner: runtime.runner, logger });
  const dataplane = new NftablesDataplane(nft, { marks, prologue: () => handOver.prologue() });
  return {
    mode,
    dataplane,
    version: await nft.version(),
    handOver,
    missing,
    refusedFeatures,
    record: (metrics) => metrics.elements(dataplane.elements),
    repair: (applied) => repairScript({ nft, dataplane, touched }, applied),
    watchDrift: ({ desired, onDrift, signal }) =>
      new DriftWatch({
        streamer: runtime.streamer,
        nft,
        marks,
        look: new Look({ nft, dataplane, desired, clock: runtime.clock }),
        touched,
        replacements: () => dataplane.replacements,
        clock: runtime.clock,
        logger,
        checkPeriod: configuration[mode].syncPeriod,
        onDrift,
      }).run(signal),
  };
}

/** Below 2^31: there is room for as many marks again. */
function randomMark(): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) >>> 1;
}

async function openIptables(
  { configuration, runtime, logger, missing: absent }: NodeOptions,
): Promise<OpenDataplane> {
  const iptables = await findIptables(runtime.runner, familiesBut(absent));
  logger.info(`iptables backend: ${iptables.reason}`);
  if (iptables.mixed) {
    logger.warn(
      "both iptables-nft and iptables-legacy hold rules on this node; programs that use different ones do not see each other's rules",
    );
  }
  for (const [family, reason] of iptables.missing) logger.warn(`no IPv${family} rules: ${reason}`);
  const dataplane = new IptablesDataplane({
    runner: runtime.runner,
    iptables,
    routeLocalnet: routeLocalnet({ ...runtime, logger }),
  });
  const { backend } = iptables;
  const mode = "iptables";
  return {
    mode,
    dataplane,
    version: iptables.version,
    handOver: new HandOver({ mode, backend, runner: runtime.runner, logger }),
    missing: new Map([...absent, ...iptables.missing]),
    packetCounts: packetReader({
      clock: runtime.clock,
      refresh: () => dataplane.readPackets(),
      known: () => dataplane.packets,
    }),
    refusedFeatures: new Map(),
    record: (metrics) => {
      for (const { family, ...rules } of dataplane.ruleCounts) metrics.iptablesRules(family, rules);
    },
    watchDrift: async ({ onDrift, onChange, signal }) => {
      while (!signal.aborted) {
        await runtime.clock.sleep(configuration.iptables.syncPeriod, signal);
        if (signal.aborted) return;
        const change = await dataplane.refresh();
        if (change !== undefined) onChange(change);
        const missing = await dataplane.missingCanaries().catch(() => []);
        if (missing.length > 0) onDrift({ missing: missing.join(", "), added: "", by: "" });
      }
    },
  };
}

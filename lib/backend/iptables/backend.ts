/** Implements the iptables mode with kube-proxy's chains. */
import type { RulesetFacts } from "../../findings/facts.ts";
import { finding } from "../../findings/catalog.ts";
import { FAMILIES, type Family } from "../../model/values/address.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import {
  type Backend,
  type BackendOptions,
  type DriftOptions,
  familiesBut,
  type KernelRules,
  missingFamilies,
  type Probed,
} from "../backend.ts";
import { chainsButNat, legacyChains, readRoutes } from "../foreign_filters.ts";
import type { BackendMetrics } from "../metrics.ts";
import { boundedReading } from "../../model/values/timing.ts";
import { setRouteLocalnet } from "../sysctl.ts";
import { HandOver, kubeProxyProcesses } from "../take_over.ts";
import { IptablesDataplane } from "./dataplane.ts";
import { DriftLook } from "./drift.ts";
import type { Saved } from "./kernel/saved.ts";
import { findIptables, type Iptables } from "./kernel/programs.ts";
import { iptablesMetrics } from "./metrics.ts";
import { iptablesChanges, iptablesNames, iptablesRules } from "./kernel_rules.ts";
import type { IptablesScript } from "./script/script.ts";
import type { ConnectionCounters } from "../../model/connections.ts";

const TRAITS: ModeTraits = {
  name: "iptables",
  primaryNodePorts: false,
  localhostNodePorts: "rules",
  guardsClusterIPs: false,
  refuses: new Map([
    ["hash", "iptables cannot, nftables can"],
    ["acceleration", "iptables cannot, nftables can"],
  ]),
  parts: "rules",
};

const ANY_IPTABLES = { backend: "", families: FAMILIES, tcpBeLiberal: false } as const;

export class IptablesBackend extends IptablesDataplane implements Backend<IptablesScript> {
  readonly traits = TRAITS;
  readonly metrics: BackendMetrics;
  readonly foreignRules: HandOver;
  readonly describe = iptablesNames;
  readonly changesFrom = () => iptablesChanges;
  readonly connections: ConnectionCounters;
  readonly #options: BackendOptions;
  #found: Iptables | undefined;

  constructor(options: BackendOptions) {
    const { runtime } = options;
    // A sysctl that hangs must not delay a sync for long. A node finding reports a failure.
    const setBriefly = boundedReading({
      clock: runtime.clock,
      refresh: () => setRouteLocalnet(runtime.runner),
      known: () => {},
    });
    super({ ...runtime, iptables: ANY_IPTABLES, routeLocalnet: () => setBriefly(0) });
    this.#options = options;
    this.foreignRules = new HandOver({
      ...runtime,
      ...options,
      variant: async () => (await this.#find()).backend,
    });
    this.metrics = iptablesMetrics({ clock: runtime.clock, dataplane: this });
    // The first script is a full one.
    this.connections = { areOurs: true, read: () => this.readFrontends() };
  }

  async probe(): Promise<Probed> {
    const found = await this.#find();
    const { reason, mixed, missing, version } = found;
    return {
      version,
      missing: new Map([...missingFamilies(this.#options.runtime), ...missing]),
      refusedFeatures: new Map(),
      findings: [
        ...mixed ? [finding("iptables-variants-mixed", { what: MIXED, where: "iptables" })] : [],
        ...[...missing].map(([family, reason]) =>
          finding("ip-family-not-written", {
            what: `no IPv${family} rules: ${reason}`,
            where: `IPv${family}`,
          })
        ),
      ],
      choice: `iptables variant: ${reason}`,
    };
  }

  override async apply(script: IptablesScript, checkpoint?: () => void): Promise<void> {
    await this.foreignRules.prepare();
    await super.apply(script, checkpoint);
  }

  /** Returns `undefined`: as in kube-proxy, a full sync repairs the rules. */
  repair(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** Looks at the rules every sync period. */
  async watchDrift({ onDrift, onChange, signal }: DriftOptions): Promise<void> {
    const { configuration, runtime } = this.#options;
    const { clock } = runtime;
    const drifts = new DriftLook({
      ...runtime,
      writes: () => this.writes,
      hasRival: async () => (await kubeProxyProcesses(runtime)).length > 0,
    });
    while (!signal.aborted) {
      await clock.sleep(configuration.iptables.syncPeriod, signal);
      if (signal.aborted) return;
      const change = await this.refresh();
      if (change !== undefined) onChange(change);
      const drift = await drifts.look(this.iptables, signal).catch(() => undefined);
      if (drift && !signal.aborted) onDrift(drift);
    }
  }

  async read(): Promise<KernelRules> {
    const { families, tcpBeLiberal } = await this.#find();
    const held = new Map<Family, Saved>();
    for (const family of families) held.set(family, await this.saved(family));
    return iptablesRules(held, tcpBeLiberal);
  }

  async readRuleset(): Promise<RulesetFacts> {
    const { runtime } = this.#options;
    const chains = [...await chainsButNat(runtime.runner), ...await legacyChains(runtime)];
    return { chains, routes: await readRoutes(runtime.runner) };
  }

  /** Finds the node's iptables once, since it does not change while the process runs. */
  async #find(): Promise<Iptables> {
    if (this.#found) return this.#found;
    const { runtime } = this.#options;
    const wanted = familiesBut(missingFamilies(runtime));
    this.#found = await findIptables(runtime.runner, wanted);
    this.iptables = this.#found;
    return this.#found;
  }
}

const MIXED =
  "both iptables-nft and iptables-legacy have rules on this node; programs of one variant do not see rules of the other";

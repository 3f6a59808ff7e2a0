/** Implements the iptables mode with kube-proxy's chains. */
import { finding } from "../../findings/catalog.ts";
import { FAMILIES, type Family } from "../../model/values/address.ts";
import type { Dataplane } from "../../model/kernel/dataplane.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import {
  type Backend,
  type BackendOptions,
  familiesBut,
  missingFamilies,
  type Probed,
  type RuleReader,
} from "../backend.ts";
import { legacyChains, nftChains, readRoutes } from "../foreign_filters.ts";
import { boundedReading } from "../../model/values/timing.ts";
import { setRouteLocalnet } from "../sysctl.ts";
import { kubeProxyProcesses, ProxyTakeOver } from "../take_over.ts";
import { IptablesDataplane } from "./dataplane.ts";
import { DriftLook } from "./drift.ts";
import type { Saved } from "./kernel/saved.ts";
import { findIptables, type Iptables } from "./kernel/programs.ts";
import { iptablesMetrics } from "./metrics.ts";
import { iptablesChanges, iptablesNames, iptablesRules } from "./kernel_rules.ts";
import type { IptablesScript } from "./script/script.ts";

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

const ANY_IPTABLES = { variant: "", families: FAMILIES, tcpBeLiberal: false } as const;

export function iptablesBackend(options: BackendOptions): Backend {
  const { runtime } = options;
  // A sysctl that hangs must not delay a sync for long. A node finding reports a failure.
  const setBriefly = boundedReading({
    clock: runtime.clock,
    refresh: () => setRouteLocalnet(runtime.runner),
    known: () => {},
  });
  const rules = new IptablesDataplane({
    ...runtime,
    iptables: ANY_IPTABLES,
    routeLocalnet: () => setBriefly(0),
  });
  let found: Iptables | undefined;
  /** Finds the node's iptables once, since it does not change while the process runs. */
  const find = async () => {
    if (found) return found;
    found = await findIptables(runtime.runner, familiesBut(missingFamilies(runtime)));
    rules.iptables = found;
    return found;
  };
  const variant = async () => (await find()).variant;
  const foreignRules = new ProxyTakeOver({ ...runtime, ...options, variant });
  return {
    traits: TRAITS,
    probe: async () => probed(await find(), missingFamilies(runtime)),
    dataplane: keptRules(rules, { ...options, foreignRules }),
    rules: ruleReader(rules, { runtime, find }),
    foreignRules,
    metrics: iptablesMetrics({ clock: runtime.clock, dataplane: rules }),
    // The first script is a full one.
    connections: { areOurs: true, read: () => rules.readFrontends() },
  };
}

function probed(found: Iptables, missingHere: Probed["missing"]): Probed {
  const { reason, mixed, missing, version } = found;
  return {
    version,
    missing: new Map([...missingHere, ...missing]),
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

/** Adds to the rules what keeps them: the take-over, and the drift that other programs cause. */
function keptRules(
  rules: IptablesDataplane,
  { configuration, runtime, foreignRules }: BackendOptions & {
    readonly foreignRules: ProxyTakeOver;
  },
): Dataplane<IptablesScript> {
  const drifts = new DriftLook({
    ...runtime,
    writes: () => rules.writes,
    differences: () => rules.differences(),
    hasRival: async () => (await kubeProxyProcesses(runtime)).length > 0,
  });
  const lookForDrift: Dataplane["watchDrift"] = async ({ onDrift, onChange, signal }) => {
    const change = await rules.refresh();
    if (change !== undefined) onChange(change);
    const drift = await drifts.look(rules.iptables, signal).catch(() => undefined);
    if (drift && !signal.aborted) onDrift(drift);
  };
  return {
    full: (state) => rules.full(state),
    changing: (change, state) => rules.changing(change, state),
    async apply(script, checkpoint) {
      await foreignRules.prepare();
      await rules.apply(script, checkpoint);
    },
    // As in kube-proxy, a full sync repairs the rules.
    repair: () => Promise.resolve(undefined),
    /** Looks at the rules every sync period. */
    async watchDrift(options) {
      const { signal } = options;
      while (!signal.aborted) {
        await runtime.clock.sleep(configuration.iptables.syncPeriod, signal);
        if (!signal.aborted) await lookForDrift(options);
      }
    },
    lookForDrift,
  };
}

function ruleReader(
  rules: IptablesDataplane,
  { runtime, find }: Pick<BackendOptions, "runtime"> & { readonly find: () => Promise<Iptables> },
): RuleReader {
  return {
    describe: iptablesNames,
    changesFrom: () => iptablesChanges,
    async read() {
      const { families, tcpBeLiberal } = await find();
      const held = new Map<Family, Saved>();
      for (const family of families) held.set(family, await rules.saved(family));
      return iptablesRules(held, tcpBeLiberal);
    },
    async readRuleset() {
      const chains = [...await nftChains(runtime.runner), ...await legacyChains(runtime)];
      return { chains, routes: await readRoutes(runtime.runner) };
    },
  };
}

const MIXED =
  "both iptables-nft and iptables-legacy have rules on this node; programs of one variant do not see rules of the other";

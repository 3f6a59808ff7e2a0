/** Checks combinations of settings, as kube-proxy does (pkg/proxy/apis/config/validation), and signpost's own. */
import type { Configuration } from "./configuration.ts";
import { type AskedMode, MODES, NODE_PORT_WORDS } from "../model/configuration.ts";
import { printDuration } from "./file/readers.ts";
import { IPVS_SCHEDULERS, ipvsWarnings } from "./ipvs.ts";
import { didYouMean } from "../model/values/nearest.ts";
import { plain, show } from "../model/values/text.ts";
import { flagsOf, type ProblemLine, type Setting } from "./setting.ts";
import {
  type Origin,
  ROWS,
  SETTING_GROUPS,
  type SettingPath,
  settingPlace,
  UNUSED_FLAGS,
  UNUSED_TITLE,
} from "./settings.ts";

/** The setting that a mode of detecting local pods needs, and its flag. */
const NEEDED_BY: Partial<
  Record<Configuration["detectLocalMode"], readonly [keyof Configuration["detectLocal"], string]>
> = {
  BridgeInterface: ["bridgeInterface", "--pod-bridge-interface"],
  InterfaceNamePrefix: ["interfaceNamePrefix", "--pod-interface-name-prefix"],
};

export function checkCombinations(configuration: Configuration, origin: Origin): string[] {
  const { mode = "", nodePortAddresses = [], ...settings } = origin.settings;
  const { detectLocalMode, detectLocal, ipvs, configSyncPeriod, signpost } = configuration;
  // One flag may set both modes.
  const errors = new Set<string>();
  const refuse = (path: SettingPath, rule: string) =>
    errors.add(`${settingPlace(origin, path)}: ${rule}`);
  // kube-proxy ignores the sections of unused modes, too.
  for (const section of mode === "" ? MODES : [mode]) {
    const { syncPeriod, minSyncPeriod } = configuration[section];
    if (syncPeriod <= 0) refuse(`${section}.syncPeriod`, ABOVE_ZERO);
    else if (minSyncPeriod !== "adaptive" && minSyncPeriod > syncPeriod) {
      // Without a mode, nftables uses the periods of the iptables section.
      const own = `${section}.minSyncPeriod` as const;
      const [sync, min] = [printDuration(syncPeriod), printDuration(minSyncPeriod)];
      refuse(
        settings[own] === undefined ? "iptables.minSyncPeriod" : own,
        `must not be longer than the sync period (${sync}), is ${min}`,
      );
    }
  }
  if (configSyncPeriod <= 0) refuse("configSyncPeriod", ABOVE_ZERO);
  if (signpost.fullSyncPeriod <= 0) refuse("signpost.fullSyncPeriod", ABOVE_ZERO);
  // kube-proxy fails at its start if the kernel refuses the scheduler. It reads empty as rr.
  if (mode === "ipvs" && !["", ...IPVS_SCHEDULERS].includes(ipvs.scheduler)) {
    const names = IPVS_SCHEDULERS.join(", ");
    refuse("ipvs.scheduler", `must be one of ${names}, is ${show(ipvs.scheduler)}`);
  }
  const [field, flag] = NEEDED_BY[detectLocalMode] ?? [];
  if (field && detectLocal[field] === "") {
    refuse("detectLocalMode", `${detectLocalMode} needs ${flag} or detectLocal.${field}`);
  }
  // As in kube-proxy, a CIDR may be repeated, but not a word.
  for (const [i, entry] of nodePortAddresses.entries()) {
    if (!NODE_PORT_WORDS.includes(entry) || nodePortAddresses.indexOf(entry) === i) continue;
    const place = settingPlace(origin, "nodePortAddresses");
    const index = origin.setBy.has("nodePortAddresses") ? "" : `[${i}]`;
    errors.add(`${place}${index}: Duplicate value: ${show(entry)}`);
  }
  if (settings["signpost.manifests"]?.includes("")) {
    refuse("signpost.manifests", "must be a file, a folder or -, is empty");
  }
  return [...errors];
}

const ABOVE_ZERO = "must be above 0";

const READ_BY_ONE_MODE: readonly string[] = [...MODES, "ipvs", "winkernel"];

/**
 * Returns true if a problem is an error: a field of another type, or a bad value that is used. The section of another
 * mode is unused, and so may the cluster CIDR be. An unknown field is a warning: kube-proxy decodes its file leniently.
 */
export function isError(
  { setting, kind }: ProblemLine,
  { mode, detectLocalMode }: {
    readonly mode: AskedMode;
    readonly detectLocalMode: Configuration["detectLocalMode"];
  },
): boolean {
  if (kind !== "value") return kind !== "ignored";
  if (setting === "clusterCIDR") return detectLocalMode === "ClusterCIDR";
  const [section = ""] = setting.split(".");
  if (!READ_BY_ONE_MODE.includes(section)) return true;
  // In ipvs mode, the iptables section sets the bit.
  if (mode === "ipvs" && setting === "iptables.masqueradeBit") return true;
  // Without a mode, it may become nftables or iptables.
  return mode === "" ? section === "nftables" || section === "iptables" : section === mode;
}

/** The take-over from kube-proxy's ipvs mode, and cleanup, read these ranges in every mode. */
const EXCLUDED = "ipvs.excludeCIDRs";

/** Returns true if a problem that is not an error is a warning. */
export function isReported({ setting, kind }: ProblemLine): boolean {
  return kind === "ignored" || setting.startsWith(EXCLUDED);
}

export function warningsOf(
  { origin, given }: { readonly origin: Origin; readonly given: readonly string[] },
): string[] {
  const warnings = ipvsWarnings(origin);
  const unused = withoutEffect(origin, given);
  if (unused.length > 0) {
    warnings.push(`without effect in signpost: ${unused.join(", ")}`);
  }
  for (const name of ["healthz", "metrics"]) {
    if (!given.includes(`--${name}-port`)) continue;
    warnings.push(`--${name}-port: deprecated, use --${name}-bind-address`);
  }
  const localhost = "iptables.localhostNodePorts";
  if (origin.settings.mode === "nftables" && origin.settings[localhost]) {
    warnings.push(
      `${settingPlace(origin, localhost)}: without effect in nftables mode; add localhost to ` +
        "nodePortAddresses to have node ports on loopback",
    );
  }
  return warnings;
}

/** Returns the places of settings, gates and flags that are set without effect. */
function withoutEffect(origin: Origin, given: readonly string[]): string[] {
  const { mode, featureGates = {} } = origin.settings;
  const unused = ([...ROWS] as [SettingPath, Setting<unknown>][])
    .filter(([path, row]) => isUnused(path, mode) && isChosen(origin.settings[path], row.default))
    .map(([path]) => settingPlace(origin, path));
  const gates = Object.keys(featureGates).filter((name) => !GATES.get(name)?.hasEffect)
    .map((name) => `${settingPlace(origin, "featureGates")}.${name}`);
  const flags = flagsOf(UNUSED_FLAGS).map(({ name }) => `--${name}`);
  return [...unused, ...gates, ...flags.filter((flag) => given.includes(flag))];
}

function isUnused(path: SettingPath, mode: AskedMode | undefined): boolean {
  const isOfIpvs = path.startsWith("ipvs.") && path !== EXCLUDED;
  return path in SETTING_GROUPS[UNUSED_TITLE] || isOfIpvs && mode !== "ipvs";
}

/** Returns true if a value differs from kube-proxy's default. Empty and zero values count as the default. */
function isChosen(value: unknown, fallback: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value) && value !== fallback;
}

/** A gate of kube-proxy 1.37 (pkg/features/kube_features.go). */
interface Gate {
  /** `""` is generally available. */
  readonly stage: "" | "ALPHA" | "BETA" | "DEPRECATED";
  readonly isOn: boolean;
  /** @default false */
  readonly isLocked?: boolean;
  /** True if signpost uses it. @default false */
  readonly hasEffect?: boolean;
}

/** The gate that rejects and counts node ports on loopback if loopback is not configured. */
export const LOCALHOST_GATE = "KubeProxyNFTablesLocalhostNodePorts";

const LOCKED_ON: Gate = { stage: "", isOn: true, isLocked: true };

/** kube-proxy's gates that affect the rules. */
const GATES: ReadonlyMap<string, Gate> = new Map<string, Gate>([
  ["AllowServiceExternalIPs", { stage: "", isOn: true, hasEffect: true }],
  ["KubeProxyIPVS", { stage: "DEPRECATED", isOn: true, hasEffect: true }],
  [LOCALHOST_GATE, { stage: "ALPHA", isOn: false, hasEffect: true }],
  ["MultiCIDRServiceAllocator", LOCKED_ON],
  ["NFTablesNetlink", { stage: "BETA", isOn: true }],
  ["NFTablesProxyMode", LOCKED_ON],
  ["PreferSameTrafficDistribution", LOCKED_ON],
  ["RelaxedServiceNameValidation", LOCKED_ON],
]);

/** A known gate, for `kubernetes_feature_enabled`. */
export interface KnownGate extends Pick<Gate, "stage"> {
  readonly name: string;
  readonly enabled: boolean;
}

export function knownGates({ featureGates }: Pick<Configuration, "featureGates">): KnownGate[] {
  return [...GATES].map(([name, { stage, isOn }]) => ({
    name,
    stage,
    enabled: featureGates[name] ?? isOn,
  }));
}

/**
 * Returns errors for gates that kube-proxy surely refuses: a misspelt known name, an invalid name,
 * a locked gate, and `mode: ipvs` without its gate. Other names may be gates of other releases or
 * components, so they get warnings.
 */
export function checkFeatureGates(origin: Origin): string[] {
  const gates = origin.settings.featureGates ?? {};
  const errors = Object.entries(gates).flatMap(([name, on]) => {
    const place = `${settingPlace(origin, "featureGates")}.${plain(name)}`;
    const known = GATES.get(name);
    if (known) return known.isLocked && !on ? [`${place}: is locked to true, leave it out`] : [];
    const hint = didYouMean(name, GATES.keys());
    const isForeign = hint === "" && /^[A-Z][A-Za-z0-9]+$/.test(name);
    return isForeign ? [] : [`${place}: is not a feature gate${hint}`];
  });
  if (origin.settings.mode === "ipvs" && gates["KubeProxyIPVS"] === false) {
    const reason = "cannot be ipvs while the feature gate KubeProxyIPVS is false: use nftables";
    errors.push(`${settingPlace(origin, "mode")}: ${reason}`);
  }
  return errors;
}

/**
 * Puts file, flags and defaults together: flags win over the file, the file over defaults.
 *
 * Defaults are kube-proxy 1.37's (pkg/proxy/apis/config/v1alpha1/defaults.go), but for the mode; they
 * stand in the table of settings.
 *
 * @module
 */
import { familyOf, parseAddress } from "../model/values/address.ts";
import type { AskedMode, Configuration } from "../model/configuration.ts";
import { hostPort } from "../model/cluster/names.ts";
import { ipvsSettings } from "./ipvs.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "./settings/process.ts";
import {
  type GivenSettings,
  inSections,
  ROWS,
  type Section,
  type Settings,
} from "./settings/table.ts";

/** Paths as nested sections: `conntrack.min` is `min` in `conntrack`. */
type Nested<T> = {
  readonly [H in keyof T as H extends string ? First<H> : never]: First<H> extends keyof T
    ? T[First<H>]
    : First<H> extends string ? Nested<Section<T, First<H>>>
    : never;
};
type First<P> = P extends `${infer Head}.${string}` ? Head : P;

/** The settings of file and flags in one; flags win. */
export function mergeSettings(file: GivenSettings, flags: GivenSettings): GivenSettings {
  const featureGates = { ...file.featureGates, ...flags.featureGates };
  return { ...file, ...flags, featureGates };
}

/** What file and flags ask for, with defaults. */
export type AskedConfiguration = Omit<Configuration, "mode"> & { readonly mode: AskedMode };

/** Fills in what is not set, and what the mode makes of other settings. */
export function completeSettings(given: GivenSettings): Configuration {
  const isIpvs = given.mode === "ipvs";
  const asked = withDefaults({ ...given, ...modeSettings(given) });
  const tcpFinWaitTimeout = isIpvs ? asked.ipvs.tcpFinTimeout : 0;
  return {
    ...asked,
    mode: asked.mode === "ipvs" ? "nftables" : asked.mode,
    conntrack: { ...asked.conntrack, tcpFinWaitTimeout },
  };
}

/** Fills in what is not set. */
export function withDefaults(given: GivenSettings): AskedConfiguration {
  const { command: _, healthzPort: _h, metricsPort: _m, clusterCIDR, ...settings } = complete(
    given,
  );
  return {
    ...settings,
    conntrack: { ...settings.conntrack, tcpFinWaitTimeout: 0 },
    ...completeServers(given, settings.bindAddress),
    clusterCIDRs: clusterCIDR,
    detectLocal: { ...settings.detectLocal, clusterCIDRs: clusterCIDR },
    nodePortAddresses: [...new Set(settings.nodePortAddresses)],
    verbosity: settings.logging.verbosity,
    logFormat: settings.logging.format,
  };
}

/** The paths that nothing sets, and that the mode asked for takes from other settings. */
export function openPaths(given: GivenSettings): ReadonlySet<string> {
  const values: Record<string, unknown> = given;
  return new Set(Object.keys(modeSettings(given)).filter((path) => values[path] === undefined));
}

/** What the mode asked for makes of other settings. */
function modeSettings(given: GivenSettings): GivenSettings {
  return given.mode === "ipvs" ? ipvsSettings(given) : nftablesSettings(given);
}

/** Every setting, in its section. */
function complete(given: GivenSettings): Nested<Settings> {
  const values: Record<string, unknown> = given;
  const all = [...ROWS].map(([path, { default: fallback, empty }]) => {
    const value = values[path];
    const isDefault = value === undefined || (value === "" && empty === "everywhere");
    return [path, isDefault ? fallback : value] as const;
  });
  // It has all paths of the table, each with what its row reads.
  return inSections(all) as Nested<Settings>;
}

/**
 * The settings of nftables mode.
 *
 * kube-proxy's mode is iptables where none is set. A file for it says what it wants in the
 * iptables section, and that is to hold when signpost chooses nftables there.
 */
function nftablesSettings(given: GivenSettings): GivenSettings {
  if (given.mode) return {};
  return {
    "nftables.masqueradeAll": given["nftables.masqueradeAll"] || given["iptables.masqueradeAll"],
    "nftables.masqueradeBit": given["nftables.masqueradeBit"] ?? given["iptables.masqueradeBit"],
    "nftables.syncPeriod": given["nftables.syncPeriod"] ?? given["iptables.syncPeriod"],
    "nftables.minSyncPeriod": given["nftables.minSyncPeriod"] ?? given["iptables.minSyncPeriod"],
  };
}

/** Where the servers listen; by default on an address of the bind address's family. */
function completeServers(
  given: GivenSettings,
  bindAddress: string,
): Pick<Configuration, "healthzBindAddress" | "metricsBindAddress"> {
  const isIPv4 = familyOf(bindAddress) === 4;
  return {
    healthzBindAddress: serverAddress(given.healthzBindAddress, {
      host: isIPv4 ? "0.0.0.0" : "::",
      port: given.healthzPort ?? HEALTHZ_PORT,
    }),
    metricsBindAddress: serverAddress(given.metricsBindAddress, {
      host: isIPv4 ? "127.0.0.1" : "::1",
      port: given.metricsPort ?? METRICS_PORT,
    }),
  };
}

/** Port 0 comes from the deprecated port flags and means no server. */
function serverAddress(
  setting: string | undefined,
  { host, port }: { readonly host: string; readonly port: number },
): string {
  if (setting === "" || port === 0) return "";
  if (setting === undefined) return hostPort(host, port);
  return parseAddress(setting) === undefined ? setting : hostPort(setting, port);
}

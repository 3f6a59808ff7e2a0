/**
 * Makes the configuration out of file, flags and defaults, and prints it in the shape of its file. It has the fields of
 * KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), and signpost's own settings under `signpost`. Durations
 * are milliseconds, addresses are canonical. Flags override the file, and the file overrides defaults. All defaults but
 * the mode are kube-proxy's (pkg/proxy/apis/config/v1alpha1/defaults.go).
 */
import { hostPort } from "../model/cluster/names.ts";
import { type MinSyncPeriod, nodePortEntries, type ProxyMode } from "../model/configuration.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import { parseAddress } from "../model/values/address.ts";
import { fieldAt } from "../model/values/record.ts";
import { printDuration } from "./file/readers.ts";
import { API_VERSION, KIND } from "./file/file.ts";
import { ipvsSettings } from "./ipvs.ts";
import type { JsonValue, Setting } from "./setting.ts";
import {
  type GivenSettings,
  HEALTHZ_PORT,
  inSections,
  METRICS_PORT,
  ROWS,
  type Settings,
} from "./settings.ts";

/** Turns paths into nested sections: `conntrack.min` is `min` in `conntrack`. */
type Nested<T> = {
  readonly [P in keyof T as Head<P>]: P extends `${infer S}.${string}` ? Nested<Section<T, S>>
    : T[P];
};

type Head<P> = P extends `${infer S}.${string}` ? S : P;

type Section<T, S extends string> = {
  readonly [P in keyof T as P extends `${S}.${infer Name}` ? Name : never]: T[P];
};

/** Settings that only lead to other settings. */
type Unkept = "configFile" | "healthzPort" | "metricsPort" | "clusterCIDR";

/** The configuration of file, flags and defaults, with the configured mode. */
type AskedConfiguration = Omit<Nested<Settings>, Unkept> & {
  /** Canonical CIDRs, at most one of each family: the setting `clusterCIDR`. */
  readonly clusterCIDRs: readonly string[];
};

/** The configuration with the mode that serves it: `ipvs` is served by nftables rules. */
export type Configuration = Omit<AskedConfiguration, "mode"> & { readonly mode: ProxyMode };

/** Fills in defaults, and the settings that the mode takes from others. */
export function completeSettings(given: GivenSettings): Configuration {
  const asked = withDefaults({ ...given, ...modeSettings(given) });
  return { ...asked, mode: asked.mode === "ipvs" ? "nftables" : asked.mode };
}

export function withDefaults(given: GivenSettings): AskedConfiguration {
  const values: Record<string, unknown> = given;
  const all = [...ROWS].map(([path, { default: fallback, empty }]) => {
    const value = values[path];
    const isDefault = value === undefined || (value === "" && empty === "everywhere");
    return [path, isDefault ? fallback : value] as const;
  });
  // It has all paths of the table. The reader of each row made the value.
  const nested = inSections(all) as Nested<Settings>;
  const { configFile: _, healthzPort: _h, metricsPort: _m, clusterCIDR, ...settings } = nested;
  return {
    ...settings,
    healthzBindAddress: serverAddress(given.healthzBindAddress, {
      host: "0.0.0.0",
      port: given.healthzPort ?? HEALTHZ_PORT,
    }),
    metricsBindAddress: serverAddress(given.metricsBindAddress, {
      host: "127.0.0.1",
      port: given.metricsPort ?? METRICS_PORT,
    }),
    clusterCIDRs: clusterCIDR,
    nodePortAddresses: [...new Set(settings.nodePortAddresses)],
  };
}

/** Returns unset paths whose values the configured mode takes from other settings. */
export function openPaths(given: GivenSettings): ReadonlySet<string> {
  const values: Record<string, unknown> = given;
  return new Set(Object.keys(modeSettings(given)).filter((path) => values[path] === undefined));
}

function modeSettings(given: GivenSettings): GivenSettings {
  return given.mode === "ipvs" ? ipvsSettings(given) : nftablesSettings(given);
}

/** Returns the settings of nftables mode. Without a mode, the iptables section applies, as in kube-proxy. */
function nftablesSettings(given: GivenSettings): GivenSettings {
  if (given.mode) return {};
  return {
    "nftables.masqueradeAll": given["nftables.masqueradeAll"] || given["iptables.masqueradeAll"],
    "nftables.masqueradeBit": given["nftables.masqueradeBit"] ?? given["iptables.masqueradeBit"],
    "nftables.syncPeriod": given["nftables.syncPeriod"] ?? given["iptables.syncPeriod"],
    "nftables.minSyncPeriod": given["nftables.minSyncPeriod"] ?? given["iptables.minSyncPeriod"],
  };
}

/** Returns a listen address. Port 0, from the deprecated port flags, means no server. */
function serverAddress(
  setting: string | undefined,
  { host, port }: { readonly host: string; readonly port: number },
): string {
  if (setting === "" || port === 0) return "";
  if (setting === undefined) return hostPort(host, port);
  return parseAddress(setting) === undefined ? setting : hostPort(setting, port);
}

/**
 * Prints the configuration as a KubeProxyConfiguration (v1alpha1) with every field. The file gives the same
 * configuration. Exceptions are servers that are off, a min sync period of 0, and `--master`.
 * @param open unset paths, printed as `null`
 */
export function toKubeProxyConfiguration(
  configuration: AskedConfiguration,
  open: ReadonlySet<string> = new Set(),
): JsonValue {
  const printed = (path: string, { print }: Setting<unknown>): JsonValue => {
    if (path === "clusterCIDR") return configuration.clusterCIDRs.join(",");
    // The value at this path came from this row's reader.
    const value = fieldAt(configuration, ...path.split("."));
    return print ? print(value) : value as JsonValue;
  };
  const rows = [...ROWS].filter(([, { inFile }]) => inFile !== false)
    .sort(([one], [other]) => one < other ? -1 : 1)
    .map(([path, row]) => [path, open.has(path) ? null : printed(path, row)] as const);
  return { apiVersion: API_VERSION, kind: KIND, ...inSections(rows) };
}

/** Returns the configuration at run time: with the chosen mode and its default for node port addresses. */
export function inEffect(
  configuration: Configuration,
  traits: Pick<ModeTraits, "name" | "primaryNodePorts">,
): Configuration {
  const nodePortAddresses = nodePortEntries(configuration, traits);
  return { ...configuration, mode: traits.name, nodePortAddresses };
}

/** Returns the part of `/configz` for which KubeProxyConfiguration lacks a field. */
export function ownConfiguration(
  configuration: Configuration,
  { name }: Pick<ModeTraits, "name">,
): JsonValue {
  return { minSyncPeriod: formatMinSyncPeriod(configuration[name].minSyncPeriod) };
}

/** Returns `adaptive`, or a Go duration (`1s`). */
export function formatMinSyncPeriod(value: MinSyncPeriod): string {
  return value === "adaptive" ? value : printDuration(value);
}

/** Prints the configuration in the shape of its file, for `/configz` and `--write-config-to`. */
import type { AskedConfiguration, Configuration } from "./configuration.ts";
import { type MinSyncPeriod, nodePortEntries } from "../model/configuration.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import { formatDuration } from "./file/durations.ts";
import { API_VERSION, KIND } from "./file/file.ts";
import type { Json, Setting } from "./setting.ts";
import { inSections, ROWS } from "./settings.ts";
import { fieldAt } from "../model/values/record.ts";

/**
 * Prints the configuration as a KubeProxyConfiguration (v1alpha1) with every field. As a file it gives the same
 * configuration, but cannot express servers that are off, a min sync period of 0, and `--master`.
 * @param open unset paths, printed as `null`
 */
export function toKubeProxyConfiguration(
  configuration: AskedConfiguration,
  open: ReadonlySet<string> = new Set(),
): Json {
  const printed = (path: string, { print }: Setting<unknown>): Json => {
    if (path === "clusterCIDR") return configuration.clusterCIDRs.join(",");
    // The value at this path came from this row's reader.
    const value = fieldAt(configuration, ...path.split("."));
    return print ? print(value) : value as Json;
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

/** Returns the part of `/configz` that KubeProxyConfiguration has no field for. */
export function ownConfiguration(
  configuration: Configuration,
  { name }: Pick<ModeTraits, "name">,
): Json {
  return { minSyncPeriod: formatMinSyncPeriod(configuration[name].minSyncPeriod) };
}

/** Returns `adaptive`, or a Go duration (`1s`). */
export function formatMinSyncPeriod(value: MinSyncPeriod): string {
  return value === "adaptive" ? value : formatDuration(value);
}

/**
 * The configuration in the shape of its file, for `/configz` and `--write-config-to`.
 *
 * @module
 */
import type { Configuration, MinSyncPeriod } from "../model/configuration.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import { nodePortEntries } from "../model/node_port_addresses.ts";
import type { AskedConfiguration } from "./complete.ts";
import { formatDuration } from "./file/durations.ts";
import { API_VERSION, KIND } from "./file/file.ts";
import type { Json, Setting } from "./settings/setting.ts";
import { inSections, ROWS } from "./settings/table.ts";
import { fieldAt } from "../model/values/record.ts";

/**
 * Prints the configuration as a KubeProxyConfiguration (v1alpha1) value with every field, durations
 * as Go's (`30s`, `1m0s`). Read as a file, it gives the same configuration again, but for what a file
 * cannot say: servers that are off, a min sync period of 0, `--master`.
 *
 * @param open paths that are not set, and printed as `null`
 */
export function toKubeProxyConfiguration(
  configuration: AskedConfiguration,
  open: ReadonlySet<string> = new Set(),
): Json {
  const rows = [...ROWS].filter(([, { inFile }]) => inFile !== false)
    .sort(([one], [other]) => one < other ? -1 : 1)
    .map(([path, row]) =>
      [path, open.has(path) ? null : printed(configuration, { path, row })] as const
    );
  return { apiVersion: API_VERSION, kind: KIND, ...inSections(rows) };
}

/**
 * The configuration as kube-proxy shows it once it runs: with the mode that was chosen, and with the
 * addresses of node ports that this mode has by default.
 */
export function inEffect(
  configuration: Configuration,
  traits: Pick<ModeTraits, "name" | "primaryNodePorts">,
): Configuration {
  const nodePortAddresses = nodePortEntries(configuration, traits);
  return { ...configuration, mode: traits.name, nodePortAddresses };
}

/** What `/configz` says of signpost beside KubeProxyConfiguration, which has no word for it. */
export function ownConfiguration(
  configuration: Configuration,
  { section }: Pick<ModeTraits, "section">,
): Json {
  return { minSyncPeriod: formatMinSyncPeriod(configuration[section].minSyncPeriod) };
}

/** `adaptive`, or the duration as Go's (`1s`). */
export function formatMinSyncPeriod(value: MinSyncPeriod): string {
  return value === "adaptive" ? value : formatDuration(value);
}

function printed(
  configuration: AskedConfiguration,
  { path, row }: { readonly path: string; readonly row: Setting<unknown> },
): Json {
  if (path === "clusterCIDR") return configuration.clusterCIDRs.join(",");
  const value = fieldAt(configuration, ...path.split("."));
  // The configuration has at this path what this row has read.
  return value === undefined ? null : row.print(value);
}

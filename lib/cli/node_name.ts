/**
 * The name of this Node.
 *
 * @module
 */
import type { Configuration } from "../config/configuration.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** As kubelet finds it: the override, else the host name in small letters. */
export function nodeNameOf(
  { hostnameOverride }: Pick<Configuration, "hostnameOverride">,
  runtime: Pick<Runtime, "hostname">,
): string {
  return hostnameOverride || runtime.hostname().trim().toLowerCase();
}

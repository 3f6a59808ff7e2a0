/**
 * `signpost --write-config-to`: writes the configuration into a file, as kube-proxy does.
 *
 * @module
 */
import { stringify } from "@std/yaml/stringify";
import { FatalError, messageOf } from "../model/values/errors.ts";
import { openPaths, withDefaults } from "../config/complete.ts";
import { toKubeProxyConfiguration } from "../config/configz.ts";
import type { GivenSettings } from "../config/settings/table.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** Gives `--write-config-to` its parts. */
export interface WriteConfigOptions {
  readonly path: string;
  /** The settings of file and flags. */
  readonly settings: GivenSettings;
  readonly runtime: Pick<Runtime, "print" | "writeFile">;
  readonly logger: Logger;
}

/**
 * Writes what flags and file say, with defaults filled in, as a KubeProxyConfiguration in YAML: not what the mode
 * makes of it, so that `mode: ipvs` stays as it is.
 *
 * @throws {FatalError} where the file cannot be written
 */
export async function writeConfig(options: WriteConfigOptions): Promise<void> {
  const { path, settings, runtime, logger } = options;
  const text = stringify(toKubeProxyConfiguration(withDefaults(settings), openPaths(settings)), {
    lineWidth: -1,
  });
  if (path === "/dev/stdout") return await runtime.print(text);
  try {
    await runtime.writeFile(path, text);
  } catch (error) {
    const reason = messageOf(error).split("\n")[0];
    throw new FatalError(
      `--write-config-to: ${path} cannot be written: ${reason}; signpost may write below ` +
        "/run/signpost and /var/lib/signpost only, and to /dev/stdout",
      { cause: error },
    );
  }
  logger.info("wrote the configuration", { file: path });
}

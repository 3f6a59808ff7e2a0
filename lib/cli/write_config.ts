/**
 * `signpost --write-config-to`: the configuration in effect as a file, as kube-proxy's flag.
 *
 * @module
 */
import { stringify } from "@std/yaml/stringify";
import { messageOf } from "../model/values/errors.ts";
import { toKubeProxyConfiguration } from "../config/configz.ts";
import type { Configuration } from "../model/configuration.ts";
import { FatalError } from "../model/values/fatal.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** What `--write-config-to` needs. */
export interface WriteConfigOptions {
  readonly path: string;
  readonly configuration: Configuration;
  readonly runtime: Pick<Runtime, "print" | "writeFile">;
  readonly logger: Logger;
}

/**
 * Writes what flags and file come to, with defaults filled in, as a KubeProxyConfiguration in YAML.
 *
 * @throws {FatalError} where the file cannot be written
 */
export async function writeConfig(options: WriteConfigOptions): Promise<void> {
  const { path, configuration, runtime, logger } = options;
  const text = stringify(toKubeProxyConfiguration(configuration), { lineWidth: -1 });
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

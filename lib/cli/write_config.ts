/** `signpost --write-config-to`: writes the configuration into a file, as kube-proxy does. */
import { stringify } from "@std/yaml/stringify";
import { FatalError, messageOf } from "../model/values/errors.ts";
import { openPaths, toKubeProxyConfiguration, withDefaults } from "../config/configuration.ts";
import type { GivenSettings } from "../config/settings.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { plain } from "../model/values/text.ts";

interface WriteConfigOptions {
  readonly path: string;
  readonly settings: GivenSettings;
  readonly runtime: Pick<Runtime, "print" | "writeFile">;
  readonly logger: Logger;
}

/** Writes the settings of file and flags, with defaults. `mode: ipvs` stays. @throws {FatalError} on failure */
export async function writeConfig(options: WriteConfigOptions): Promise<void> {
  const { path, settings, runtime, logger } = options;
  const text = configurationText(settings);
  if (path === "/dev/stdout") return await runtime.print(text);
  await writeOutput(text, { flag: "--write-config-to", path, also: "and to /dev/stdout", runtime });
  logger.info("wrote the configuration", { file: path });
}

/** Returns the settings of flags and file, with defaults, as a KubeProxyConfiguration in YAML. */
export function configurationText(settings: GivenSettings): string {
  return stringify(toKubeProxyConfiguration(withDefaults(settings), openPaths(settings)), {
    lineWidth: -1,
  });
}

/** Writes a file. @param options `also`: another place for the output, the end of an error's message */
export async function writeOutput(
  data: string | Uint8Array,
  { flag, path, also, runtime }: {
    readonly flag: string;
    readonly path: string;
    readonly also: string;
    readonly runtime: Pick<Runtime, "writeFile">;
  },
): Promise<void> {
  await runtime.writeFile(path, data).catch((cause) => {
    const reason = plain(messageOf(cause).split("\n")[0] ?? "");
    throw new FatalError(
      `${flag}: ${plain(path)} cannot be written: ${reason}; signpost may write below ` +
        `/run/signpost and /var/lib/signpost only, ${also}`,
      { cause },
    );
  });
}

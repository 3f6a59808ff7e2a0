/** Declares the parts that commands work with, and finds the name of this Node. */
import type { Runtime } from "../model/ports/runtime.ts";
import type { SystemdEnvironment } from "../observe/systemd.ts";
import type { ConfiguredBy } from "../config/load.ts";
import type { Command } from "../config/command.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";

export interface CommandContext {
  readonly runtime: Runtime;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
  readonly systemd: SystemdEnvironment;
  readonly reload: (callback: () => void) => void;
}

/** Returns true if a command changes nothing. */
export function isQuery({ name }: Command): boolean {
  return name !== "run" && name !== "cleanup";
}

export interface QueryContext extends Pick<CommandContext, "runtime" | "signal"> {
  readonly configuration: Configuration;
  readonly nodeName: string;
  readonly logger: Logger;
  readonly configuredBy?: ConfiguredBy | undefined;
}

/** Returns the name of this Node, as kubelet does: the override, else the host name in small letters. */
export function nodeNameOf(
  { hostnameOverride }: Pick<Configuration, "hostnameOverride">,
  runtime: Pick<Runtime, "hostname">,
): string {
  return hostnameOverride || runtime.hostname().trim().toLowerCase();
}

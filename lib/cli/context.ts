/**
 * What a command works with.
 *
 * @module
 */
import type { Runtime } from "../model/ports/runtime.ts";
import type { SystemdEnvironment } from "../observe/systemd.ts";
import type { ConfiguredBy } from "../config/load.ts";
import type { Command } from "../config/command.ts";
import type { Ask } from "./client.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";

/** What a command works with. */
export interface CommandContext {
  readonly runtime: Runtime;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
  /** What systemd told this process. */
  readonly systemd: SystemdEnvironment;
  /** Calls back at each SIGHUP. */
  readonly reload: (callback: () => void) => void;
}

/** Returns true if a command changes nothing. */
export function isQuery(command: Command): command is Query {
  return command.name !== "run" && command.name !== "cleanup";
}

/** A command that changes nothing. */
export type Query = Exclude<Command, { readonly name: "run" | "cleanup" }>;

/** What these commands work with. */
export interface QueryContext {
  readonly configuration: Configuration;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
  /** As in an invocation. */
  readonly configuredBy?: ConfiguredBy | undefined;
}

/** What those work with that ask the daemon. */
export interface AskContext
  extends Pick<QueryContext, "configuration" | "runtime" | "logger" | "signal"> {
  /** In tests, another than the socket's. */
  readonly ask?: Ask;
}

/** As kubelet finds it: the override, else the host name in small letters. */
export function nodeNameOf(
  { hostnameOverride }: Pick<Configuration, "hostnameOverride">,
  runtime: Pick<Runtime, "hostname">,
): string {
  return hostnameOverride || runtime.hostname().trim().toLowerCase();
}

/** Declares the inputs of the daemon. */
import type { OpenBackend } from "../../backend/choose.ts";
import type { LocalhostListeners } from "../../localhost/listeners.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { CommandLine } from "../../model/configuration.ts";
import type { Logger } from "../../model/ports/ports.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import type { ProgramWatch } from "../../system/program_watch.ts";
import type { ServiceManager } from "../../observe/systemd.ts";
import type { Source } from "../objects/source.ts";

export interface DaemonOptions {
  readonly configuration: Configuration;
  readonly commandLine: CommandLine;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly manager: ServiceManager;
  /** Outlives the daemon: a new configuration keeps the listeners that it needs, too. */
  readonly localhost: LocalhostListeners;
  /** Aborts when the process is told to stop, or its configuration has changed. */
  readonly signal: AbortSignal;
}

export interface Opened extends OpenBackend {
  readonly source: Source;
  readonly programs: ProgramWatch;
}

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

/** The configuration and the ports of the daemon. */
export interface DaemonOptions {
  readonly configuration: Configuration;
  /** The command line of the configuration. */
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

/** The backend, the source and the programs of a daemon. */
export interface Opened extends OpenBackend {
  readonly source: Source;
  /** Runs all programs. */
  readonly programs: ProgramWatch;
}

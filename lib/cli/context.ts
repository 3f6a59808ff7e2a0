/** Declares the context of commands, opens their logs, and remembers the file of `--config`. */
import type { Runtime } from "../model/ports/runtime.ts";
import { logsToJournal, type SystemdEnvironment } from "../observe/systemd.ts";
import type { ConfiguredBy } from "../config/load.ts";
import type { Configuration } from "../config/configuration.ts";
import type { LogFields, Logger } from "../model/ports/ports.ts";
import { plain } from "../model/values/text.ts";
import { createLogger } from "../observe/log.ts";
import { stderrSink } from "../system/files.ts";

export interface CommandContext {
  readonly runtime: Runtime;
  /** Aborts when the process gets a signal to stop. */
  readonly signal: AbortSignal;
  readonly systemd: SystemdEnvironment;
  readonly reload: (callback: () => void) => void;
}

export interface QueryContext extends Pick<CommandContext, "runtime" | "signal"> {
  readonly configuration: Configuration;
  readonly nodeName: string;
  readonly logger: Logger;
  readonly configuredBy?: ConfiguredBy | undefined;
  /** The flags of the command line, such as `--config`. */
  readonly given?: readonly string[];
}

/** Returns the name of this Node, as kubelet does: the override, else the host name in small letters. */
export function nodeNameOf(
  { hostnameOverride }: Pick<Configuration, "hostnameOverride">,
  runtime: Pick<Runtime, "hostname">,
): string {
  return hostnameOverride || runtime.hostname().trim().toLowerCase();
}

/** The most lines of the log that are kept for `bundle`. */
const MOST_LINES = 500;

/** Opens the log on standard error, in the configured format, and keeps its last lines. */
export function openLog(
  { logging: { format, verbosity } }: Pick<Configuration, "logging">,
  { runtime, recentLog }: {
    readonly runtime: Pick<Runtime, "clock" | "environment" | "pid">;
    readonly recentLog: string[];
  },
): Logger {
  const write = stderrSink();
  return createLogger({
    clock: runtime.clock,
    sink: (line) => {
      if (recentLog.push(line) > MOST_LINES) recentLog.shift();
      write(line);
    },
    format,
    verbosity,
    journald: logsToJournal(runtime),
  });
}

/** Returns a logger of lines such as `signpost: warning: object refused: kind=Service, key=a/b`. */
export function terseLog(
  runtime: Pick<Runtime, "complain">,
  { verbosity }: Pick<Configuration["logging"], "verbosity">,
): Logger {
  const printer = (prefix: string) => (message: string, fields: LogFields = {}) => {
    const values = Object.entries(fields).filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${value}`).join(", ");
    runtime.complain(`signpost: ${prefix}${plain(message + (values && `: ${values}`))}`);
  };
  const info = printer("");
  return {
    error: printer(""),
    warn: printer("warning: "),
    info: (message, fields) => verbosity > 0 ? info(message, fields) : undefined,
    debug: (level, message, fields) => verbosity >= level ? info(message, fields) : undefined,
  };
}

export class ConfigurationFile {
  readonly #read: (path: string) => Promise<string>;
  #path: string | undefined;
  #last: string | undefined;
  /** The text at the last look. */
  #seen: string | undefined;

  constructor(read: (path: string) => Promise<string>) {
    this.#read = read;
  }

  get contents(): { readonly path: string; readonly text: string } | null {
    return this.#path === undefined || this.#last === undefined
      ? null
      : { path: this.#path, text: this.#last };
  }

  /** Reads a file, and remembers it as the one to watch. */
  readonly read = async (path: string): Promise<string> => {
    this.#path = path;
    this.#last = undefined;
    return this.#seen = this.#last = await this.#read(path);
  };

  /** Rereads the file, because watches miss a ConfigMap's new link. @returns true if two looks saw the same new text */
  async hasChanged(): Promise<boolean> {
    if (this.#path === undefined) return false;
    const now = await this.#read(this.#path).catch(() => undefined);
    const isSettled = now === this.#seen;
    this.#seen = now;
    return isSettled && now !== this.#last;
  }
}

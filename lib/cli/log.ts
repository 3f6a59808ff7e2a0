/** Opens the logs: the daemon's, and the short lines of queries. */
import type { Configuration } from "../config/configuration.ts";
import type { LogFields, Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { createLogger } from "../observe/log.ts";
import { logsToJournal } from "../observe/systemd.ts";
import { stderrSink } from "../system/stderr_sink.ts";
import { plain } from "../model/values/text.ts";

/** Opens the log on standard error, as the configuration asks for it. */
export function openLog(
  { logging: { format, verbosity } }: Pick<Configuration, "logging">,
  runtime: Pick<Runtime, "clock" | "environment" | "pid">,
): Logger {
  return createLogger({
    clock: runtime.clock,
    sink: stderrSink(),
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
  const say = (prefix: string) => (message: string, fields: LogFields = {}) => {
    const values = Object.entries(fields).filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${value}`).join(", ");
    runtime.complain(`signpost: ${prefix}${plain(message + (values && `: ${values}`))}`);
  };
  const info = say("");
  return {
    error: say(""),
    warn: say("warning: "),
    info: (message, fields) => verbosity > 0 ? info(message, fields) : undefined,
    debug: (level, message, fields) => verbosity >= level ? info(message, fields) : undefined,
  };
}

/**
 * The log of the commands that do something.
 *
 * @module
 */
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { createLogger } from "../observe/log.ts";
import { stderrIsJournal, stderrSink } from "../system/stderr_sink.ts";

/** Opens the log on standard error, as the configuration asks for it. */
export function openLog(
  { logging: { format, verbosity } }: Pick<Configuration, "logging">,
  runtime: Pick<Runtime, "clock" | "environment">,
): Logger {
  return createLogger({
    clock: runtime.clock,
    sink: stderrSink(),
    format,
    verbosity,
    journald: stderrIsJournal(runtime.environment("JOURNAL_STREAM")),
  });
}

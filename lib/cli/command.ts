/**
 * From the words of the command line to what they ask for.
 *
 * @module
 */
import { type Invocation, loadConfiguration } from "../config/load.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports.ts";
import { createLogger } from "../observe/log.ts";
import { stderrIsJournal, stderrSink } from "../observe/stderr_sink.ts";
import type { Runtime } from "../system/runtime.ts";
import { runDaemon } from "./daemon.ts";
import { FatalError } from "./fatal.ts";
import { once } from "./once.ts";
import { VERSION_TEXT } from "./version.ts";

/** What a command works with. */
export interface CommandContext {
  readonly runtime: Runtime;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
}

/**
 * Does what the command line says.
 *
 * @param argv the words after the program's name
 * @returns the exit code: 0 done, 1 cannot go on, 2 wrong flags or configuration
 */
export async function runCommand(
  argv: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { runtime } = context;
  const invocation = await loadConfiguration(argv, {
    readFile: runtime.readFile,
    version: VERSION_TEXT,
  });
  switch (invocation.type) {
    case "help":
    case "version":
      await runtime.print(invocation.text);
      return 0;
    case "errors":
      for (const error of invocation.errors) runtime.complain(`signpost: ${error}`);
      return 2;
    case "run":
      return await guarded(invocation, context);
  }
}

type Run = Extract<Invocation, { readonly type: "run" }>;

/** Errors that end the process become one line and exit code 1. */
async function guarded(invocation: Run, context: CommandContext): Promise<number> {
  const logger = openLog(invocation.configuration, context.runtime);
  for (const warning of invocation.warnings) logger.warn(warning);
  try {
    await perform(invocation, { ...context, logger });
    return 0;
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    logger.error(error.message);
    return 1;
  }
}

async function perform(
  { command, configuration }: Run,
  context: CommandContext & { readonly logger: Logger },
): Promise<void> {
  const nodeName = configuration.hostnameOverride ||
    context.runtime.hostname().trim().toLowerCase();
  const options = { configuration, nodeName, ...context };
  if (command.name === "cleanup") throw new FatalError("cleanup is not there yet");
  if (command.once) await once({ ...options, output: command.output });
  else await runDaemon(options);
}

function openLog(configuration: Configuration, runtime: Runtime): Logger {
  return createLogger({
    clock: runtime.clock,
    sink: stderrSink(),
    format: configuration.logFormat,
    verbosity: configuration.verbosity,
    journald: stderrIsJournal(runtime.environment("JOURNAL_STREAM")),
  });
}

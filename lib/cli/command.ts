/** Runs the command that the command line names. A command is loaded only when it runs. */
import type { Command } from "../config/command.ts";
import { COMMAND_ROWS } from "../config/commands.ts";
import { type Invocation, loadConfiguration, type Run } from "../config/load.ts";
import { messageIfFatal } from "../model/values/errors.ts";
import { VERSION_TEXT } from "../model/version.ts";
import {
  type CommandContext,
  ConfigurationFile,
  nodeNameOf,
  openLog,
  type QueryContext,
  terseLog,
} from "./context.ts";

/**
 * Runs a command.
 * @returns 0 done, 1 cannot go on, 2 wrong flags or configuration; for queries: 0 all is well, 1 it is not, 2 unknown
 */
export async function runCommand(
  argv: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { runtime } = context;
  const file = new ConfigurationFile(runtime.readFile);
  const given = await loadConfiguration(argv, { readFile: file.read });
  const invocation = await onThisNode(given, { argv, runtime });
  switch (invocation.type) {
    case "help": {
      const { helpText } = await import("./help.ts");
      const columns = runtime.isTerminal() ? runtime.terminalSize().columns : undefined;
      await runtime.print(helpText(invocation.command, columns));
      return 0;
    }
    case "version":
      await runtime.print(`${VERSION_TEXT}\n`);
      return 0;
    case "errors":
      for (const line of invocation.warnings) runtime.complain(`signpost: warning: ${line}`);
      for (const error of invocation.errors) runtime.complain(`signpost: ${error}`);
      if (invocation.help) runtime.complain(`signpost: see signpost ${invocation.help}`);
      return 2;
    case "run":
      return await guarded(invocation, { ...context, argv, file });
  }
}

async function onThisNode(
  invocation: Invocation,
  { argv, runtime }: Pick<CommandInput, "argv" | "runtime">,
): Promise<Invocation> {
  if (invocation.type !== "run") return invocation;
  const { shares } = COMMAND_ROWS[invocation.command.name];
  // Without flags that name a cluster, the command is about this node's daemon.
  if (shares === "all" || !shares?.includes("config")) return invocation;
  const { nodeConfiguration } = await import("./node_configuration.ts");
  return await nodeConfiguration({ argv, invocation, runtime });
}

type CommandInput = CommandContext & {
  readonly argv: readonly string[];
  readonly file: ConfigurationFile;
};

/** Runs a command. An error that ends the process becomes one line and an exit code. */
async function guarded(invocation: Run, given: CommandInput): Promise<number> {
  const { command, configuration, warnings } = invocation;
  const { runtime } = given;
  const isQuery = command.name !== "run" && command.name !== "cleanup";
  const recentLog: string[] = [];
  const logger = command.name === "run"
    ? openLog(configuration, { runtime, recentLog })
    // The answer of `cleanup` is the removed rules, in info lines.
    : terseLog(runtime, isQuery ? configuration.logging : { verbosity: 1 });
  // The daemon has logged these warnings already.
  for (const warning of isQuery ? [] : warnings) logger.warn(warning);
  const nodeName = nodeNameOf(configuration, runtime);
  try {
    return await perform(command, { ...given, ...invocation, nodeName, logger, recentLog });
  } catch (error) {
    logger.error(messageIfFatal(error));
    return isQuery ? 2 : 1;
  }
}

type FullContext = CommandInput & Omit<Run, "command"> & QueryContext & {
  readonly recentLog: string[];
};

/** @returns the exit code */
async function perform(command: Command, context: FullContext): Promise<number> {
  const { runtime, configuration, given } = context;
  switch (command.name) {
    case "run":
      // In kube-proxy's order.
      if (command.writeConfigTo) {
        const { writeConfig } = await import("./write_config.ts");
        await writeConfig({ ...context, path: command.writeConfigTo });
      } else if (command.initOnly) {
        await (await import("./init_only.ts")).initOnly(context);
      } else if (command.once) {
        await (await import("./once.ts")).once({ ...context, output: command.output });
      } else await (await import("./run.ts")).run(context);
      return 0;
    case "check":
      return await (await import("./check.ts")).check(command, context);
    case "bundle":
      return await (await import("./bundle/command.ts")).bundle(command, context);
    case "cleanup":
      await (await import("./cleanup.ts")).cleanup({ ...context, ...command });
      return 0;
    case "explain": {
      const { explain } = await import("./explain/command.ts");
      // The daemon's own verbosity does not count.
      const isVerbose = given.includes("--v") && configuration.logging.verbosity > 0;
      return await explain(command, { ...context, isVerbose });
    }
    case "test":
      return await (await import("./test.ts")).test(command, context);
    case "observe":
      return await (await import("./observe.ts")).observe(command, context);
    case "migrate":
      return await (await import("./migrate.ts")).migrate(command, context);
    case "diff":
      return await (await import("./diff.ts")).diff(command, context);
    case "status":
      return await (await import("./status.ts")).status(command, context);
    case "top":
      return await (await import("./top.ts")).top(command, context);
    case "verify":
      return await (await import("./verify.ts")).verify(command, context);
    case "completions":
      return await (await import("./completions.ts")).completions(command, context);
    case "version":
      await runtime.print((await import("./version.ts")).versionReport(runtime.build));
      return 0;
    case "licenses":
      await runtime.print((await import("./licenses/report.ts")).licensesReport());
      return 0;
  }
}

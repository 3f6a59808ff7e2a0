/**
 * signpost: a node proxy for Kubernetes Services.
 *
 * The composition root: parses the command line, wires the parts, and turns what they say into
 * an exit code: 0 done, 1 cannot go on, 2 wrong configuration.
 *
 * @module
 */
import { runCommand } from "./lib/cli/command.ts";
import { systemRuntime } from "./lib/system/runtime.ts";
import { stopSignal } from "./lib/system/signals.ts";

if (import.meta.main) {
  const runtime = systemRuntime();
  Deno.exit(await runCommand(Deno.args, { runtime, signal: stopSignal() }));
}

/**
 * signpost: a node proxy for Kubernetes Services.
 *
 * The composition root: parses the command line, wires the parts, and turns what they say into
 * an exit code: 0 done, 1 cannot go on, 2 wrong configuration.
 *
 * @module
 */
import { runCommand } from "./lib/cli/command.ts";
import { onReload, stopSignal, systemRuntime } from "./lib/system/runtime.ts";
import { takeSystemdEnvironment } from "./lib/observe/systemd.ts";

if (import.meta.main) {
  // Before anything starts a child, which must not speak to systemd in our name.
  const systemd = takeSystemdEnvironment(Deno.env, Deno.pid);
  const code = await runCommand(Deno.args, {
    runtime: systemRuntime(),
    signal: stopSignal(),
    systemd,
    reload: onReload,
  });
  Deno.exit(code);
}

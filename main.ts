/**
 * signpost: a node proxy for Kubernetes Services.
 *
 * Runs the command of the command line with the system's ports. The exit code is 0 if it is done, 1 if
 * it cannot go on, 2 if the configuration is wrong.
 *
 * @module
 */
import { runCommand } from "./lib/cli/command.ts";
import { onReload, stopSignal, systemRuntime } from "./lib/system/runtime.ts";
import { takeSystemdEnvironment } from "./lib/observe/systemd.ts";

if (import.meta.main) {
  // This comes before the first child process, which must not speak to systemd in our name.
  const systemd = takeSystemdEnvironment(Deno.env, Deno.pid);
  const code = await runCommand(Deno.args, {
    runtime: systemRuntime(),
    signal: stopSignal(),
    systemd,
    reload: onReload,
  });
  Deno.exit(code);
}

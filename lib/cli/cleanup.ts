/** `signpost cleanup`: removes every rule of signpost, and with a flag every rule of kube-proxy. */
import { cleanUp, type Removal } from "../backend/clean_up.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { warnOfRouteLocalnet } from "../backend/sysctl.ts";
import { describeHolder, lockHolder } from "../daemon/one_daemon.ts";
import { FatalError } from "../model/values/errors.ts";

interface CleanupOptions {
  readonly kubeProxy: boolean;
  readonly dryRun: boolean;
  readonly force: boolean;
  readonly configuration: Configuration;
  readonly runtime: Pick<Runtime, "runner" | "print" | "lock" | "pid" | "clock">;
  readonly logger: Logger;
}

/** Removes the rules, or prints the scripts for it. @throws {FatalError} that names every failure, or the daemon */
export async function cleanup(options: CleanupOptions): Promise<void> {
  const { kubeProxy, dryRun, force, configuration, runtime, logger } = options;
  if (!dryRun && !force) await refuseWithDaemon(options);
  let isAnyRemoved = false;
  const removed = async ({ message, details, script }: Removal) => {
    isAnyRemoved = true;
    if (dryRun) await runtime.print(script);
    else logger.info(message, details);
  };
  const { runner } = runtime;
  const excluded = configuration.ipvs.excludeCIDRs;
  const failures = await cleanUp({ kubeProxy, dryRun, excluded, removed, runner, logger });
  const [first] = failures;
  if (first) {
    throw new FatalError(failures.map(({ message }) => message).join("; "), { cause: first });
  }
  if (!isAnyRemoved) logger.info("found no rules to remove");
  else if (!dryRun) await warnOfRouteLocalnet({ runner, logger });
}

/** Takes the lock, so that a daemon cannot start now. @throws {FatalError} if a daemon runs */
async function refuseWithDaemon({ runtime }: CleanupOptions): Promise<void> {
  try {
    if (runtime.lock.take(lockHolder(runtime))) return;
  } catch {
    // On a system without this lock, a daemon cannot run.
    return;
  }
  const who = describeHolder(await runtime.lock.holder());
  throw new FatalError(`${who}: nothing was removed; stop the daemon, or set --force`);
}

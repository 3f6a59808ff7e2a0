/** `signpost cleanup`: removes every rule of signpost, and of kube-proxy if asked. */
import { append } from "../model/values/lists.ts";
import type { BackendOptions } from "../backend/backend.ts";
import { cleanUpIpvs, type Removal } from "../backend/take_over.ts";
import { allBackends } from "../backend/choose.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { warnOfRouteLocalnet } from "../backend/sysctl.ts";
import { describeHolder, lockHolder } from "../daemon/one_daemon.ts";
import { FatalError } from "../model/values/errors.ts";

export interface CleanupOptions extends BackendOptions {
  readonly kubeProxy: boolean;
  readonly dryRun: boolean;
  readonly force: boolean;
  readonly runtime: BackendOptions["runtime"] & Pick<Runtime, "print" | "lock" | "pid" | "clock">;
}

/** Removes the rules, or prints the scripts that would. @throws {FatalError} that names every failure, or the daemon */
export async function cleanup(options: CleanupOptions): Promise<void> {
  const { dryRun, force, runtime, logger } = options;
  if (!dryRun && !force) await refuseBesideDaemon(options);
  let isAnyRemoved = false;
  const removed = async ({ message, details, script }: Removal) => {
    isAnyRemoved = true;
    if (dryRun) await runtime.print(script);
    else logger.info(message, details);
  };
  const failures: Error[] = [];
  for (const backend of allBackends(options)) {
    append(failures, await backend.cleanup({ ...options, removed }));
  }
  if (options.kubeProxy) {
    // After the rules: sets that a rule names cannot go.
    const { configuration: { ipvs: { excludeCIDRs: excluded } } } = options;
    append(failures, await cleanUpIpvs({ runner: runtime.runner, excluded, dryRun, removed }));
  }
  const [first] = failures;
  if (first) {
    throw new FatalError(failures.map(({ message }) => message).join("; "), { cause: first });
  }
  if (!isAnyRemoved) logger.info("there are no rules to remove");
  else if (!dryRun) {
    await warnOfRouteLocalnet({ runner: runtime.runner, logger });
  }
}

/** Takes the lock, so that no daemon starts meanwhile either. */
async function refuseBesideDaemon({ runtime }: CleanupOptions): Promise<void> {
  try {
    if (runtime.lock.take(lockHolder(runtime))) return;
  } catch {
    // A system without locks has no such daemon either.
    return;
  }
  const who = describeHolder(await runtime.lock.holder());
  throw new FatalError(`${who}: nothing is removed; stop it, or set --force`);
}

/**
 * `signpost cleanup`: removes every rule of signpost, and of kube-proxy if asked.
 *
 * @module
 */
import { append } from "../model/values/lists.ts";
import type { BackendOptions } from "../backend/backend.ts";
import { cleanUpIpvs } from "../backend/leftovers.ts";
import { allBackends } from "../backend/choose.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { giveBackRouteLocalnet, ROUTE_LOCALNET } from "../backend/route_localnet.ts";
import { FatalError } from "../model/values/fatal.ts";

/** What `cleanup` needs. */
export interface CleanupOptions extends BackendOptions {
  /** Remove kube-proxy's rules too. */
  readonly kubeProxy: boolean;
  /** Only print what would be removed. */
  readonly dryRun: boolean;
  readonly runtime: BackendOptions["runtime"] & Pick<Runtime, "print">;
}

/**
 * Removes the rules, or prints the scripts that would. Where one program fails, the others go on.
 *
 * @throws {FatalError} that names every failure
 */
export async function cleanup(options: CleanupOptions): Promise<void> {
  await cleanRouteLocalnet(options);
  const print = (text: string) => options.runtime.print(text);
  const failures: Error[] = [];
  for (const backend of allBackends(options)) {
    append(failures, await backend.cleanup({ ...options, print }));
  }
  if (options.kubeProxy) {
    // After the rules: sets that a rule names cannot go.
    const { runtime: { runner }, configuration: { ipvs: { excludeCIDRs: excluded } } } = options;
    append(failures, await cleanUpIpvs({ ...options, runner, excluded, print }));
  }
  const [first] = failures;
  if (!first) return;
  throw new FatalError(failures.map(({ message }) => message).join("; "), { cause: first });
}

/** Before the rules that keep neighbours from localhost go. */
async function cleanRouteLocalnet({ dryRun, runtime, logger }: CleanupOptions): Promise<void> {
  const { runner } = runtime;
  const isOurs = await giveBackRouteLocalnet({ runner, logger, dryRun });
  if (isOurs && dryRun) await runtime.print(`# sysctl -w ${ROUTE_LOCALNET}=0\n`);
}

/**
 * The state file in the life of the daemon: read at the start, written as the kernel follows.
 *
 * @module
 */
import { ObjectCache } from "../cache/cache.ts";
import type { Logger } from "../model/ports.ts";
import { StateError } from "../source/saved/check.ts";
import { readStateFile, writeStateFile } from "../system/state_file.ts";
import { StateKeeper } from "../source/saved/keeper.ts";
import type { SyncLoop } from "../sync/sync.ts";
import type { Runtime } from "../model/runtime.ts";

/** What the state file is for and about. */
export interface SavedStateOptions {
  readonly path: string;
  /** kube-proxy's rules are in the kernel: they know more than a file from before them. */
  readonly isOutdated: boolean;
  readonly nodeName: string;
  readonly cache: ObjectCache;
  readonly loop: SyncLoop;
  readonly runtime: Runtime;
  readonly logger: Logger;
}

/**
 * Applies the saved state, where there is a good one.
 *
 * @returns keeps the file from now on
 */
export async function openSavedState(options: SavedStateOptions): Promise<StateKeeper> {
  const { path, nodeName, cache, runtime, logger } = options;
  const written = await applySaved(options);
  return new StateKeeper({
    clock: runtime.clock,
    logger,
    lastWritten: written,
    write: (terms) => writeStateFile(cache, { ...terms, path, nodeName }),
  });
}

/** @returns when the state was written; `undefined`: there is none that can be used */
async function applySaved(
  { path, isOutdated, nodeName, loop, logger }: SavedStateOptions,
): Promise<number | undefined> {
  try {
    const saved = await readStateFile(path, { nodeName });
    if (!saved) return undefined;
    if (isOutdated) {
      logger.info("the saved state is not used: kube-proxy's rules are newer", { path });
      return undefined;
    }
    const objects = new ObjectCache();
    for (const event of saved.events) objects.apply(event);
    await loop.seed(objects);
    const at = new Date(saved.written).toISOString();
    logger.info("the saved state is in the kernel until the watches have delivered", { path, at });
    return saved.written;
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    logger.warn(`the saved state is ignored: ${error.message}`);
    return undefined;
  }
}

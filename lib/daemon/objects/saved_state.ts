/**
 * The state file in the life of the daemon: read at the start, written as the kernel follows.
 *
 * @module
 */
import type { ForeignRules } from "../../backend/backend.ts";
import { ObjectCache } from "../../cache/cache.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { createDecoder } from "../../source/objects/decode.ts";
import { StateError } from "../../source/saved/format.ts";
import { readStateFile, writeStateFile } from "../../system/state_file.ts";
import { StateKeeper } from "../../source/saved/keeper.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

/** Milliseconds that the node may be without rules for the sake of a program that hangs. */
const PATIENCE = 10_000;

/** Whether kube-proxy's rules serve this node; where that cannot be told in time, they do not. */
export async function isServedByKubeProxy(
  foreignRules: SavedStateOptions["foreignRules"],
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<boolean> {
  const over = new AbortController();
  const late = clock.sleep(PATIENCE, over.signal).then(() => "late" as const);
  const served = await Promise.race([foreignRules.isServedByKubeProxy(), late]);
  over.abort();
  if (served !== "late") return served;
  logger.warn("it is not known yet whether kube-proxy's rules are here; the saved state is used", {
    waited: PATIENCE / 1000,
  });
  return false;
}

/** What the state file is for and about. */
export interface SavedStateOptions {
  readonly path: string;
  /** Kube-proxy's rules in the kernel know more than a file from before them. */
  readonly foreignRules: Pick<ForeignRules, "isServedByKubeProxy">;
  readonly nodeName: string;
  readonly cache: ObjectCache;
  /** As `SyncLoop.seed`. */
  readonly seed: (objects: ObjectCache) => Promise<boolean>;
  readonly runtime: Pick<Runtime, "clock" | "releaseMemory">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Applies the saved state, where there is a good one.
 *
 * @returns keeps the file from now on
 */
export async function openSavedState(options: SavedStateOptions): Promise<StateKeeper> {
  const { path, nodeName, cache, runtime, logger, signal } = options;
  const written = await applySaved(options);
  return new StateKeeper({
    clock: runtime.clock,
    logger,
    lastWritten: written,
    write: async (terms) => {
      await writeStateFile(cache, { ...terms, path, nodeName });
      runtime.releaseMemory("small", signal);
    },
  });
}

/** @returns when the state was written; `undefined`: there is none that can be used */
async function applySaved(
  { path, foreignRules, nodeName, seed, runtime, logger }: SavedStateOptions,
): Promise<number | undefined> {
  try {
    const turns = new Turns(runtime.clock);
    const pause = () => turns.giveWay();
    const saved = await readStateFile(path, { nodeName, decode: createDecoder(), pause });
    if (!saved) return undefined;
    if (await isServedByKubeProxy(foreignRules, { ...runtime, logger })) {
      logger.info("the saved state is not used: kube-proxy's rules are newer", { path });
      return undefined;
    }
    const objects = new ObjectCache();
    for (const event of saved.events) await turns.run(objects.applying(event));
    if (await seed(objects)) {
      const at = new Date(saved.written).toISOString();
      logger.info("the saved state is in the kernel until the watches have delivered", {
        path,
        at,
      });
    }
    return saved.written;
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    logger.warn(`the saved state is ignored: ${error.message}`);
    return undefined;
  }
}

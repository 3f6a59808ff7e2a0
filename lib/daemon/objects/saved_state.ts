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
import type { Known } from "../../source/objects/sharing.ts";
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
  /** `undefined`: there is none. */
  readonly path: string | undefined;
  /** Kube-proxy's rules in the kernel know more than a file from before them. */
  readonly foreignRules: Pick<ForeignRules, "isServedByKubeProxy">;
  readonly nodeName: string;
  readonly cache: ObjectCache;
  readonly runtime: Pick<Runtime, "clock" | "releaseMemory">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** A state that was read. */
interface Saved {
  readonly objects: ObjectCache;
  /** When it was written. */
  readonly written: number;
}

/** The state file of one daemon. */
export class SavedState {
  readonly #options: SavedStateOptions;
  #reading: Promise<void> | undefined;
  /** What was read, until the sources have delivered. */
  #saved: Saved | undefined;
  #isRestoring: boolean;
  #keeper: StateKeeper | undefined;

  /** @param options where it is, and what goes into it */
  constructor(options: SavedStateOptions) {
    this.#options = options;
    this.#isRestoring = options.path !== undefined;
  }

  /** Whether the state is being read or applied. */
  get isRestoring(): boolean {
    return this.#isRestoring;
  }

  /** Reads the state, once, where there is a good one. */
  read(): Promise<void> {
    return this.#reading ??= this.#read();
  }

  /** What it has of an object, until the sources have delivered. */
  known: Known = (kind, key) => this.#saved?.objects.get(kind, key);

  /**
   * Applies what was read; then the file is kept up to date.
   *
   * @param seed as `SyncLoop.seed`
   */
  async restore(seed: (objects: ObjectCache) => Promise<boolean>): Promise<void> {
    const { path, nodeName, cache, runtime, logger, signal } = this.#options;
    if (path === undefined) return;
    const lastWritten = await this.#apply(path, seed);
    this.#isRestoring = false;
    this.#keeper = new StateKeeper({
      clock: runtime.clock,
      logger,
      lastWritten,
      write: async (terms) => {
        await writeStateFile(cache, { ...terms, path, nodeName });
        runtime.releaseMemory("small", signal);
      },
    });
  }

  /** Says that the kernel holds what the sources have delivered, all of them. */
  changed(): void {
    this.#saved = undefined;
    this.#keeper?.changed();
  }

  /** As `StateKeeper.age`. */
  age(): number | undefined {
    return this.#keeper?.age();
  }

  /** As `StateKeeper.stop`. */
  async stop(): Promise<void> {
    await this.#keeper?.stop();
  }

  async #read(): Promise<void> {
    const { path } = this.#options;
    if (path !== undefined) this.#saved = await readGood(path, this.#options);
  }

  /** @returns when the state was written; `undefined`: there is none that can be used */
  async #apply(
    path: string,
    seed: (objects: ObjectCache) => Promise<boolean>,
  ): Promise<number | undefined> {
    const { foreignRules, runtime, logger } = this.#options;
    await this.read();
    const saved = this.#saved;
    if (!saved) return undefined;
    if (await isServedByKubeProxy(foreignRules, { ...runtime, logger })) {
      logger.info("the saved state is not used: kube-proxy's rules are newer", { path });
      return undefined;
    }
    if (await seed(saved.objects)) {
      const at = new Date(saved.written).toISOString();
      logger.info("the saved state is in the kernel until the watches have delivered", {
        path,
        at,
      });
    }
    return saved.written;
  }
}

/** @returns `undefined`: there is no state that can be used */
async function readGood(
  path: string,
  { nodeName, runtime, logger }: Pick<SavedStateOptions, "nodeName" | "runtime" | "logger">,
): Promise<Saved | undefined> {
  try {
    const turns = new Turns(runtime.clock);
    const pause = () => turns.giveWay();
    const saved = await readStateFile(path, { nodeName, decode: createDecoder(), pause });
    if (!saved) return undefined;
    const objects = new ObjectCache();
    for (const event of saved.events) await turns.run(objects.applying(event));
    return { objects, written: saved.written };
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    logger.warn(`the saved state is ignored: ${error.message}`);
    return undefined;
  }
}

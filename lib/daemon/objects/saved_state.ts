/**
 * The state file in the life of the daemon: read at a start without rules, written as the kernel follows.
 *
 * @module
 */
import type { ForeignRules } from "../../backend/backend.ts";
import type { ReplaceEvent } from "../../model/cluster/objects.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { createDecoder } from "../../source/objects/decode.ts";
import { StateError, type StateObjects } from "../../source/saved/format.ts";
import { readStateFile, stateFileTime, writeStateFile } from "../../system/state_file.ts";
import { StateKeeper } from "../../source/saved/keeper.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

/** Milliseconds that the node may be without rules for the sake of a program that hangs. */
const PATIENCE = 10_000;

/** Returns whether rules of a proxy serve this node; `false` if that is not known in time. */
export async function isServed(
  foreignRules: SavedStateOptions["foreignRules"],
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<boolean> {
  const over = new AbortController();
  const late = clock.sleep(PATIENCE, over.signal).then(() => "late" as const);
  const served = await Promise.race([foreignRules.isServed(), late]);
  over.abort();
  if (served !== "late") return served;
  logger.warn("it is not known yet whether rules are in the kernel; the state file is used", {
    waited: PATIENCE / 1000,
  });
  return false;
}

/** What the state file is for and about. */
export interface SavedStateOptions {
  /** `undefined`: there is none. */
  readonly path: string | undefined;
  /** Rules in the kernel may be newer than the file. */
  readonly foreignRules: Pick<ForeignRules, "isServed">;
  readonly nodeName: string;
  /** What is written. */
  readonly cache: StateObjects;
  readonly runtime: Pick<Runtime, "clock" | "releaseMemory">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Names what a start finds: rules that packets meet, or the objects of the state file. */
export type Found =
  | { readonly type: "rules" }
  | {
    readonly type: "objects";
    readonly events: readonly ReplaceEvent[];
    /** Milliseconds since the epoch. */
    readonly written: number;
  }
  | { readonly type: "nothing" };

/** The state file of one daemon. */
export class SavedState {
  readonly #options: SavedStateOptions;
  #keeper: StateKeeper | undefined;

  /** @param options where it is, and what goes into it */
  constructor(options: SavedStateOptions) {
    this.#options = options;
  }

  /** Reads the file if no rules serve the node. From then on the file is kept up to date. */
  async load(): Promise<Found> {
    const { path, nodeName, foreignRules, cache, runtime, logger, signal } = this.#options;
    if (path === undefined) return { type: "nothing" };
    const lastWritten = await stateFileTime(path);
    this.#keeper = new StateKeeper({
      clock: runtime.clock,
      logger,
      lastWritten,
      write: async (terms) => {
        await writeStateFile(cache, { ...terms, path, nodeName });
        runtime.releaseMemory("small", signal);
      },
    });
    if (lastWritten === undefined) return { type: "nothing" };
    if (await isServed(foreignRules, { ...runtime, logger })) {
      logger.info("the rules in the kernel stay until the API server's lists are in");
      return { type: "rules" };
    }
    return await this.#read(path);
  }

  /** Says that the kernel holds what the sources have delivered, all of them. */
  changed(): void {
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

  async #read(path: string): Promise<Found> {
    const { nodeName, runtime, logger } = this.#options;
    try {
      const turns = new Turns(runtime.clock);
      const pause = () => turns.giveWay();
      const saved = await readStateFile(path, { nodeName, decode: createDecoder(), pause });
      if (!saved) return { type: "nothing" };
      logger.info("no rules are in the kernel: those of the state file are written", {
        path,
        at: new Date(saved.written).toISOString(),
      });
      return { type: "objects", ...saved };
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      logger.warn(`the state file is not used: ${error.message}`);
      return { type: "nothing" };
    }
  }
}

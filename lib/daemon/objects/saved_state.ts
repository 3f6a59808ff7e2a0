/** Reads the state file at a start without rules, and opens its writer. */
import type { ForeignRules } from "../../backend/backend.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { createDecoder } from "../../source/objects/decode.ts";
import { type SavedState, StateError, type StateObjects } from "../../source/saved/format.ts";
import { readStateFile, stateFileTime, writeStateFile } from "../../system/state_file.ts";
import { StateKeeper } from "../../source/saved/keeper.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

/** Milliseconds that a node without rules waits for a program that hangs. */
const PATIENCE = 10_000;

/** Returns true if rules of a proxy serve this node; false if that is not known in time. */
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

interface SavedStateOptions {
  readonly path: string;
  /** Rules in the kernel may be newer than the file. */
  readonly foreignRules: Pick<ForeignRules, "isServed">;
  readonly nodeName: string;
  readonly cache: StateObjects;
  readonly runtime: Pick<Runtime, "clock" | "releaseMemory">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Names what a start finds: rules that packets meet, or the objects of the state file. */
type Found =
  | { readonly type: "rules" | "nothing" }
  | ({ readonly type: "objects" } & SavedState);

/** Opens the writer of a state file, and reads the file if no rules serve the node. */
export async function openStateFile(
  options: SavedStateOptions,
): Promise<{ readonly keeper: StateKeeper; readonly found: Found }> {
  const { path, nodeName, cache, runtime, logger, signal } = options;
  const lastWritten = await stateFileTime(path);
  const keeper = new StateKeeper({
    clock: runtime.clock,
    logger,
    lastWritten,
    write: async (terms) => {
      await writeStateFile(cache, { ...terms, path, nodeName });
      runtime.releaseMemory(signal);
    },
  });
  return { keeper, found: lastWritten === undefined ? { type: "nothing" } : await find(options) };
}

async function find(
  { path, nodeName, foreignRules, runtime, logger }: SavedStateOptions,
): Promise<Found> {
  if (await isServed(foreignRules, { ...runtime, logger })) {
    logger.info("the rules in the kernel stay until the API server's lists are in");
    return { type: "rules" };
  }
  try {
    const turns = new Turns(runtime.clock);
    const pause = () => turns.giveWay();
    const saved = await readStateFile(path, { nodeName, decode: createDecoder(), pause });
    if (!saved) return { type: "nothing" };
    logger.info("no rules are in the kernel: writing those of the state file", {
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

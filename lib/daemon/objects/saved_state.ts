/** Reads the state file at a start without rules, and opens its writer. */
import type { ForeignRules } from "../../backend/backend.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { createDecoder } from "../../source/objects/decode.ts";
import { type SavedState, StateError } from "../../source/saved/format.ts";
import { hasStateFile, readStateFile, stateFileTime } from "../../system/state_file.ts";
import type { DaemonOptions, Parts } from "../parts.ts";

/** Milliseconds that a node without rules waits for a program that hangs. */
const PATIENCE = 10_000;

/** Returns true if rules of a proxy serve this node; false also if this is not known in time. */
export async function isServed(
  foreignRules: Pick<ForeignRules, "isServed">,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<boolean> {
  const over = new AbortController();
  const late = clock.sleep(PATIENCE, over.signal).then(() => "late" as const);
  const served = await Promise.race([foreignRules.isServed(), late]);
  over.abort();
  if (served !== "late") return served;
  logger.warn("cannot find out in time if rules are in the kernel; the state file is used", {
    waited: PATIENCE / 1000,
  });
  return false;
}

/** Takes the objects of the state file if no rules serve the node. Runs before the source. */
export async function restore(parts: Parts): Promise<void> {
  const { options, opened: { backend }, cache, keeper, loop, observation } = parts;
  const { nodeName, runtime, logger } = options;
  const path = options.configuration.signpost.stateFile;
  if (!keeper || !await hasStateFile(path)) return;
  // Rules in the kernel may be newer than the file.
  if (await isServed(backend.foreignRules, { ...runtime, logger })) {
    keeper.found(await stateFileTime(path, { nodeName, decode: createDecoder() }));
    logger.info("the rules in the kernel stay until the API server has sent its lists");
    // Load balancers keep a node that has rules, also while its API server is away.
    observation.isEligible = true;
    return;
  }
  const saved = await read(path, options);
  if (!saved) return;
  keeper.found(saved.written);
  await loop.restore(saved.events);
  if (cache.node) observation.isEligible = !cache.node.deleting;
}

/** Reads the state file; `undefined` if it cannot be used. */
async function read(
  path: string,
  { nodeName, runtime: { clock }, logger }: DaemonOptions,
): Promise<SavedState | undefined> {
  try {
    const turns = new Turns(clock);
    const pause = () => turns.yieldIfDue();
    const saved = await readStateFile(path, { nodeName, decode: createDecoder(), pause });
    if (!saved) return undefined;
    logger.info("no rules are in the kernel: writing the rules of the state file", {
      path,
      at: new Date(saved.written).toISOString(),
    });
    return saved;
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    logger.warn(`the state file is not used: ${error.message}`);
    return undefined;
  }
}

/**
 * `signpost verify --fix`: asks the daemon for a full sync and waits for it.
 *
 * @module
 */
import type { Clock } from "../../model/ports/ports.ts";
import type { Status, SyncSummary } from "../../model/status.ts";
import type { FixOutcome } from "../../model/kernel/differences.ts";
import { formatDuration } from "../../observe/human.ts";
import { askStatus, requestFullSync } from "../../daemon/objects/client.ts";
import { FatalError } from "../../model/values/errors.ts";

/** What it takes to have things fixed. */
export interface FixOptions {
  readonly socket: string;
  readonly clock: Clock;
  /** Looks again whether the kernel holds what it should. */
  readonly isSame: () => Promise<boolean>;
  readonly signal: AbortSignal;
}

/** Milliseconds to wait for the sync, and between two questions. */
const DEADLINE = 30_000;
const INTERVAL = 200;

/** Asks the daemon for a full sync, and says what came of it. */
export async function fix(options: FixOptions): Promise<FixOutcome> {
  const { socket } = options;
  try {
    const before = lastFull(await askStatus(socket));
    await requestFullSync(socket);
    const sync = await nextFull(before, options);
    if (!sync) {
      return { result: "failed", message: "the daemon has made no full sync: see its log" };
    }
    const { seconds, operations } = sync;
    const done = `the daemon has made a full sync (${operations} operations in ${
      formatDuration(seconds)
    })`;
    return await options.isSame()
      ? { result: "fixed", message: `${done}; the kernel now holds what it should` }
      : {
        result: "differs",
        message:
          `${done}, and the kernel still differs: does the daemon run with the same flags, and does no other program write there?`,
      };
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    return { result: "failed", message: error.message };
  }
}

function lastFull({ syncs }: Status): SyncSummary | undefined {
  return syncs.findLast(({ kind }) => kind === "full");
}

/** The first full sync after that one; `undefined`: there was none in time. */
async function nextFull(
  before: SyncSummary | undefined,
  { socket, clock, signal }: FixOptions,
): Promise<SyncSummary | undefined> {
  const end = clock.monotonic() + DEADLINE;
  while (clock.monotonic() < end && !signal.aborted) {
    const sync = lastFull(await askStatus(socket));
    if (sync && sync.at !== before?.at) return sync;
    await clock.sleep(INTERVAL, signal);
  }
  return undefined;
}

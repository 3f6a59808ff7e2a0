/**
 * Follows the kernel by `nft monitor`, one that knows the sets of our table at any time.
 *
 * @module
 */
import { Backoff, type BackoffLimits } from "../../../model/values/timing.ts";
import type { Clock, Logger, ProcessStreamer } from "../../../model/ports/ports.ts";
import type { Nft } from "../kernel/nft.ts";
import { monitorCommand, outgrown } from "./monitor.ts";
import { type Transaction, TransactionReader } from "./transactions.ts";

/** What following works with. */
export interface FollowOptions {
  readonly streamer: ProcessStreamer;
  readonly nft: Pick<Nft, "listSetNames">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onTransaction: (transaction: Transaction) => void;
}

/** Milliseconds until a successor is tried again that ended before it heard anything. */
const PAUSES: BackoffLimits = { first: 50, longest: 5_000 };

/** Whether a generation is the other one, or a later one; they are counted in 32 bits. */
function reaches(generation: number, other: number): boolean {
  return (generation - other | 0) >= 0;
}

/**
 * Follows until no monitor is left.
 *
 * A monitor that lost events is ended: the kernel drops all that happens until it has read the 16 MB that
 * are kept for it, which takes seconds. Another one hears at once.
 *
 * Where sets come that the monitor does not know, another one takes over: the first one goes on until it
 * has told what the other one heard first, so that no transaction is missed while a monitor starts, or is
 * refused because a set has just gone.
 *
 * @param onHeard receives the generation of the first transaction that the monitor tells
 */
export async function followMonitor(
  options: FollowOptions,
  signal: AbortSignal,
  onHeard: (generation: number) => void = () => {},
): Promise<void> {
  const { streamer, nft, logger, onTransaction } = options;
  const reader = new TransactionReader();
  const handedOver = new AbortController();
  const deserted = new AbortController();
  let told: number | undefined;
  let takenOverAt: number | undefined;
  let succession: Promise<void> | undefined;
  const handOver = () => {
    if (told === undefined || takenOverAt === undefined) return;
    if (reaches(told, takenOverAt)) handedOver.abort();
  };
  const succeed = () =>
    followSuccessor(options, AbortSignal.any([signal, deserted.signal]), (generation) => {
      takenOverAt = generation;
      handOver();
    });
  try {
    const known = await nft.listSetNames();
    const either = AbortSignal.any([signal, handedOver.signal]);
    for await (const line of streamer.lines(monitorCommand(known), either)) {
      const transaction = reader.read(line);
      if (transaction === undefined) continue;
      onTransaction(transaction);
      let added = transaction.newSets;
      if (told === undefined) {
        onHeard(transaction.generation);
        // Of sets that came between the list and the first transaction nothing was told.
        const now = await nft.listSetNames().catch(() => known);
        added = [...added, ...now.map(({ name }) => name)];
      }
      told = transaction.generation;
      if (outgrown(known, added)) succession ??= succeed();
      handOver();
    }
  } catch (error) {
    logger.debug(2, "nft monitor failed", { error: String(error) });
  }
  // One that ended by itself may have kept something back, and its successor may not hear yet.
  if (!handedOver.signal.aborted) deserted.abort();
  await succession;
}

/** Starts successors until one hears something, and follows that one. */
async function followSuccessor(
  options: FollowOptions,
  signal: AbortSignal,
  onHeard: (generation: number) => void,
): Promise<void> {
  let hasHeard = false;
  const backoff = new Backoff(PAUSES);
  while (!signal.aborted) {
    await followMonitor(options, signal, (generation) => {
      hasHeard = true;
      onHeard(generation);
    });
    if (hasHeard) return;
    await options.clock.sleep(backoff.next(), signal);
  }
}

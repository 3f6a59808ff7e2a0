/**
 * Follows the kernel by `nft monitor`, one that knows the sets of our table at any time.
 *
 * @module
 */
import { Backoff, type BackoffLimits } from "../../../model/values/timing.ts";
import type { Clock, Logger, ProcessStreamer } from "../../../model/ports/ports.ts";
import type { ListedSet, Nft } from "../kernel/nft.ts";
import { type Transaction, TransactionReader } from "./transactions.ts";
import { TABLE } from "../script/objects.ts";
import { setNamed } from "../script/sets.ts";

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

/** Returns if a generation is the other one or a later one. They are counted in 32 bits. */
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

/** Most sets that are named: thousands come with session affinity, and hold few elements each. */
const MAX_SETS = 1_000;

/**
 * Returns the command line of an `nft monitor` that needs 4 MB at any size of the table.
 *
 * `nft monitor` reads and keeps all elements, 1.6 kB each (1.0.6, 1.1.3), but needs only the sets:
 *
 * - `--echo`: keeps no elements that are added;
 * - `flush set …`: does not read the elements of these sets. With `--check`, nothing is sent to the kernel;
 * - `list table …`, last: reads no other table.
 *
 * It prints no elements of sets that come later (`outgrown`).
 *
 * @param sets the sets that the table has now
 */
export function monitorCommand(sets: readonly ListedSet[]): readonly [string, ...string[]] {
  const flushes = sets.slice(0, MAX_SETS).flatMap(({ kind, name }) =>
    `flush ${kind} ${TABLE} ${name} ;`.split(" ")
  );
  const list = `list table ${TABLE}`.split(" ");
  return ["nft", "--check", "--echo", ...flushes, "monitor", ";", ...list];
}

/** Returns if sets came that a monitor does not know. Sets of session affinity have elements of the kernel's own. */
function outgrown(known: readonly ListedSet[], added: readonly string[]): boolean {
  return added.some((name) =>
    setNamed(name)?.role !== "affinityClients" && !known.some((each) => each.name === name)
  );
}

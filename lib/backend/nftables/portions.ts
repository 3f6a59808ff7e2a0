/**
 * Writes a large table in portions, where no packet meets the table yet: one transaction would take
 * 2 kB of nft's memory for each element, and twice the time.
 *
 * @module
 */
import type { Progress } from "../../model/kernel/dataplane.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import type { Nft } from "./kernel/nft.ts";
import type { FullScript, Portion } from "./script/full_script.ts";

/** What it takes to write in portions. */
export interface PortionsOptions {
  readonly nft: Pick<Nft, "stream">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly logger: Pick<Logger, "info">;
  /** Gives commands that go into the last transaction, before ours: packets meet the table from then on. */
  readonly prologue: () => Promise<string>;
  /** Gives commands that end a transaction. */
  readonly mark: () => string;
  /** Is told what nft has taken. */
  readonly onProgress: (progress: Progress) => void;
  /** Called when nft has taken one; what it throws ends the writing. */
  readonly checkpoint: () => void;
}

/** Milliseconds after which the log says, once, that the rules are still being written. */
const LONG = 10_000;

/**
 * Gives the portions to nft, one process for each: its memory ends with it. While one is taken by the
 * kernel, the next nft reads what follows, which is half of its work, and the one after that is made, of Services
 * that may be worked out for it. Other work is done between two parts of it.
 *
 * @throws {ApplyError} where nft or the kernel refuses one; what was written leads no packet anywhere
 */
export async function writePortions(
  script: FullScript,
  { nft, clock, logger, prologue, mark, onProgress, checkpoint }: PortionsOptions,
): Promise<void> {
  const started = clock.monotonic();
  let of = 0;
  let done = 0;
  let isTold = false;
  const write = async ({ text, isLast }: Portion, before: Promise<void>) => {
    const head = isLast ? await prologue() : "";
    await nft.stream(() => heldBack(head + text, { before, mark }));
    onProgress({ done: ++done, of });
    checkpoint();
    if (isTold || isLast || clock.monotonic() - started < LONG) return;
    isTold = true;
    logger.info("the rules are written in portions; packets meet them with the last one", {
      portions: `${done} of ${of}`,
    });
  };
  const overlap = new Overlap();
  const turns = new Turns(clock);
  for (const portion of script.portions()) {
    if (portion === undefined) {
      await turns.giveWay();
      continue;
    }
    if (of === 0) onProgress({ done, of: portion.of });
    of = portion.of;
    await overlap.begin((before) => write(portion, before));
  }
  await overlap.end();
}

/** Ends a script. Until it comes nft only reads, and an input that ends without it is an error. */
const CLOSING = "}\n";

/**
 * Runs two steps at most: `nft` reads the next transaction, half of its work, while the kernel takes one.
 */
export class Overlap {
  #before = Promise.resolve();
  #last = Promise.resolve();

  /**
   * Begins a step. Whether it failed is seen when the next but one begins, or at the end.
   *
   * @param step is given the end of the one before, which fails where that failed
   * @throws what an earlier step threw
   */
  async begin(step: (before: Promise<void>) => Promise<void>): Promise<void> {
    await this.#before;
    [this.#before, this.#last] = [this.#last, step(this.#last)];
    this.#last.catch(() => {});
  }

  /** Waits for all. @throws what a step threw */
  async end(): Promise<void> {
    await this.#before;
    await this.#last;
  }
}

/**
 * The pieces of a script (for `Nft.stream`) of which nft can take the end when another step has ended.
 *
 * @param options `mark`: gives the commands that end the transaction
 * @throws what the other step threw
 */
export async function* heldBack(
  script: string,
  { before, mark }: { readonly before: Promise<void>; readonly mark: () => string },
): AsyncGenerator<string> {
  yield script.slice(0, -CLOSING.length);
  await before;
  yield CLOSING + mark();
}

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
import { heldBack, Overlap } from "./kernel/overlap.ts";
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

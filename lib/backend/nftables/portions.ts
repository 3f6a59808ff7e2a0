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
import type { FullScript } from "./script/full_script.ts";

/** What it takes to write in portions. */
export interface PortionsOptions {
  readonly nft: Pick<Nft, "apply">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly logger: Pick<Logger, "info">;
  /** Makes a transaction of a portion; `isLast`: packets meet the table from then on. */
  readonly decorate: (text: string, isLast: boolean) => Promise<string>;
  /** Is told what nft has taken. */
  readonly onProgress: (progress: Progress) => void;
  /** Called when nft has taken one; what it throws ends the writing. */
  readonly checkpoint: () => void;
}

/** Milliseconds after which the log says, once, that the rules are still being written. */
const LONG = 10_000;

/**
 * Gives the portions to nft, one process for each: its memory ends with it. The next one is made
 * while nft takes the last one, and other work is done between two parts of it.
 *
 * @throws {ApplyError} where nft or the kernel refuses one; what was written leads no packet anywhere
 */
export async function writePortions(
  script: FullScript,
  { nft, clock, logger, decorate, onProgress, checkpoint }: PortionsOptions,
): Promise<void> {
  const started = clock.monotonic();
  const of = script.portionCount;
  let done = 0;
  let isTold = false;
  const write = async (text: string) => {
    await nft.apply(await decorate(text, done + 1 === of));
    onProgress({ done: ++done, of });
    checkpoint();
    if (isTold || done === of || clock.monotonic() - started < LONG) return;
    isTold = true;
    logger.info("the rules are written in portions; packets meet them with the last one", {
      portions: `${done} of ${of}`,
    });
  };
  onProgress({ done, of });
  let writing = Promise.resolve();
  const turns = new Turns(clock);
  for (const text of script.portions()) {
    if (text === undefined) {
      await turns.giveWay();
      continue;
    }
    await writing;
    writing = write(text);
    // Whether it failed is seen when the next one is there.
    writing.catch(() => {});
  }
  await writing;
}

/**
 * Notices when somebody else changes our table: at once by `nft monitor`, and by a look at the
 * table now and then, for what a monitor cannot tell.
 *
 * @module
 */
import type { Clock, Logger, ProcessStreamer } from "../model/ports.ts";
import type { Nft } from "./nft.ts";
import { type OwnDeletions, parseDeletion } from "./own_deletions.ts";

/** What the watch works with. */
export interface DriftOptions {
  readonly streamer: ProcessStreamer;
  readonly nft: Nft;
  readonly own: OwnDeletions;
  /** The names of all chains and sets that should be in the table. */
  readonly expectedNames: () => Iterable<string>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two looks at the table. */
  readonly checkPeriod: number;
  /** Called with one line that says what is missing. */
  readonly onDrift: (missing: string) => void;
}

/** Deletions of one transaction come together: so long they are gathered, in milliseconds. */
const GATHER = 50;
/** Milliseconds after which a new `nft monitor` hears what happens. */
const SUBSCRIBED = 300;
const FIRST_PAUSE = 200;
const MAX_PAUSE = 30_000;

/** Follows the kernel until the signal aborts. */
export class DriftWatch {
  readonly #options: DriftOptions;
  #foreign: string[] = [];

  /** @param options what to follow and whom to tell */
  constructor(options: DriftOptions) {
    this.#options = options;
  }

  /** Runs both ways of noticing. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#follow(signal), this.#check(signal)]);
  }

  /**
   * `nft monitor`, started again where it ends (1.0.6 crashes when source ranges go): meanwhile
   * anything may have happened.
   */
  async #follow(signal: AbortSignal): Promise<void> {
    const { streamer, own, clock, logger, onDrift } = this.#options;
    let pause = FIRST_PAUSE;
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      const started = clock.monotonic();
      // What was announced while nobody followed will not be seen.
      own.clear();
      if (!isFirst) {
        void clock.sleep(SUBSCRIBED, signal).then(() => {
          if (!signal.aborted) onDrift("unknown: nft monitor was not running");
        });
      }
      try {
        for await (const line of streamer.lines(["nft", "monitor", "destroy"], signal)) {
          this.#take(line);
        }
      } catch (error) {
        logger.debug(2, "nft monitor failed", { error: String(error) });
      }
      if (signal.aborted) return;
      logger.warn("nft monitor has ended and is started again; the table is written anew");
      await clock.sleep(pause, signal);
      const lasted = clock.monotonic() - started;
      pause = lasted > MAX_PAUSE ? FIRST_PAUSE : Math.min(MAX_PAUSE, pause * 2);
    }
  }

  #take(line: string): void {
    if (/lost .*events/i.test(line)) {
      this.#options.own.clear();
      this.#report("unknown: nft monitor lost events");
      return;
    }
    const deletion = parseDeletion(line);
    if (!deletion || this.#options.own.take(deletion)) return;
    this.#report(
      deletion.kind === "table" ? "the whole table" : `${deletion.kind} of ${deletion.name}`,
    );
  }

  /** The first deletion starts the gathering, the rest of its transaction joins. */
  #report(what: string): void {
    this.#foreign.push(what);
    if (this.#foreign.length > 1) return;
    void this.#options.clock.sleep(GATHER).then(() => {
      const all = [...new Set(this.#foreign)];
      this.#foreign = [];
      const whole = all.find((each) => each === "the whole table");
      const named = all.slice(0, MAX_NAMED).join(", ");
      const more = all.length - MAX_NAMED;
      this.#options.onDrift(whole ?? (more > 0 ? `${named} and ${more} more` : named));
    });
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { nft, own, expectedNames, clock, checkPeriod, onDrift } = this.#options;
    while (!signal.aborted) {
      await clock.sleep(checkPeriod, signal);
      if (signal.aborted) return;
      own.expire();
      const expected = [...expectedNames()];
      const names = await nft.listNames().catch(() => undefined);
      if (!names) continue;
      const missing = expected.filter((name) => !names.has(name));
      // A sync that ran meanwhile may have removed what was expected when the look began.
      const still = new Set(expectedNames());
      const gone = missing.filter((name) => still.has(name));
      if (gone.length > 0) onDrift(gone.slice(0, MAX_NAMED).join(", "));
    }
  }
}

const MAX_NAMED = 5;

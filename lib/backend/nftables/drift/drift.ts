/**
 * Notices when somebody else changes our table: at once by `nft monitor`, and by a look at the
 * table now and then, for what a monitor cannot tell.
 *
 * `nft monitor` (1.0.6) takes 1.6 kB for each element: for those that the kernel has when it starts
 * and for each that is ever added, and it never gives them back. So it is started anew after very
 * many additions, and a table with very many elements is only looked at, but often.
 *
 * @module
 */
import type { Clock, Logger, ProcessStreamer } from "../../../model/ports.ts";
import type { Nft } from "../kernel/nft.ts";
import { type OwnDeletions, parseDeletion } from "./own_deletions.ts";

/** What a table asks of a program that follows it. */
export interface TableLoad {
  /** Elements in all its sets and maps. */
  readonly elements: number;
  /** Elements that have been added since the process began. */
  readonly added: number;
  /** How often a script for it was begun or ended. */
  readonly steps: number;
  /** Whether a script is on its way to the kernel. */
  readonly isBusy: boolean;
}

/** What the watch works with. */
export interface DriftOptions {
  readonly streamer: ProcessStreamer;
  readonly nft: Nft;
  readonly own: OwnDeletions;
  /** All chains and sets that should be in the table, with the number of their rules. */
  readonly expectedRules: () => Iterable<readonly [name: string, rules: number]>;
  /** Looks at some elements of a large table. @returns what is missing */
  readonly lookAtElements: () => Promise<string | undefined>;
  /** Of our table, at present. */
  readonly load: () => TableLoad;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two looks at the table, while a monitor follows it. */
  readonly checkPeriod: number;
  /** Called with one line that says what is missing. */
  readonly onDrift: (missing: string) => void;
}

/** Deletions of one transaction come together: so long they are gathered, in milliseconds. */
const GATHER = 50;
/** Milliseconds after which a new `nft monitor` hears what happens. */
const SUBSCRIBED = 300;
/** Most elements that a monitor may hold of a table, and most that it may gather: 30 MB each. */
const MOST_ELEMENTS = 20_000;
const SMALL_AGAIN = 15_000;
/** Milliseconds between two looks at a table that no monitor follows, and at its load. */
const LOOK = 900;
/** Milliseconds between two looks at some elements of a large table: all take 8 minutes at 100,000. */
const ELEMENTS_PERIOD = 10_000;
const FIRST_PAUSE = 200;
const MAX_PAUSE = 30_000;

/** Follows the kernel until the signal aborts. */
export class DriftWatch {
  readonly #options: DriftOptions;
  #foreign: string[] = [];
  #wasLarge = false;

  /** @param options what to follow and whom to tell */
  constructor(options: DriftOptions) {
    this.#options = options;
  }

  /** Runs both ways of noticing. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#follow(signal), this.#check(signal)]);
  }

  /** A table that was large has to become a good deal smaller, lest it goes to and fro. */
  #isLarge(): boolean {
    const limit = this.#wasLarge ? SMALL_AGAIN : MOST_ELEMENTS;
    this.#wasLarge = this.#options.load().elements > limit;
    return this.#wasLarge;
  }

  /** Has a monitor follow the table as long as that is small enough. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    let pause = FIRST_PAUSE;
    while (!signal.aborted) {
      if (this.#isLarge()) {
        await this.#whileLarge(signal);
        continue;
      }
      const started = clock.monotonic();
      const isFull = await this.#monitor(signal);
      if (signal.aborted) return;
      if (isFull) {
        if (this.#isLarge()) continue;
        logger.debug(2, "nft monitor has gathered much and is started again");
        void this.#whenSubscribed(signal, () => this.#look(signal));
        continue;
      }
      // 1.0.6 crashes when source ranges go. Meanwhile anything may have happened.
      logger.warn("nft monitor has ended and is started again; the table is written anew");
      await clock.sleep(pause, signal);
      void this.#whenSubscribed(signal, () => {
        this.#options.onDrift("unknown: nft monitor was not running");
      });
      const lasted = clock.monotonic() - started;
      pause = lasted > MAX_PAUSE ? FIRST_PAUSE : Math.min(MAX_PAUSE, pause * 2);
    }
  }

  /** The looks go on, and are all that there is. */
  async #whileLarge(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    logger.info(
      `more than ${MOST_ELEMENTS} elements: too many for nft monitor; chains, sets and rules that ` +
        "others delete are noticed within a second, single elements within minutes",
    );
    while (this.#isLarge() && !signal.aborted) await clock.sleep(LOOK, signal);
  }

  async #whenSubscribed(signal: AbortSignal, body: () => void): Promise<void> {
    await this.#options.clock.sleep(SUBSCRIBED, signal);
    if (!signal.aborted) body();
  }

  /** Runs `nft monitor` once. @returns whether it was ended because it held too much */
  async #monitor(signal: AbortSignal): Promise<boolean> {
    const { streamer, own, logger } = this.#options;
    // What was announced while nobody followed will not be seen.
    own.clear();
    const end = new AbortController();
    const stop = () => end.abort();
    signal.addEventListener("abort", stop, { once: true });
    const isFull = this.#whenFull(end.signal).then((full) => {
      stop();
      return full;
    });
    try {
      for await (const line of streamer.lines(["nft", "monitor", "destroy"], end.signal)) {
        this.#take(line);
      }
    } catch (error) {
      logger.debug(2, "nft monitor failed", { error: String(error) });
    } finally {
      stop();
      signal.removeEventListener("abort", stop);
    }
    return await isFull;
  }

  /** @returns whether a monitor of now has come to hold too much; not before it has, or the signal */
  async #whenFull(signal: AbortSignal): Promise<boolean> {
    const { load, clock } = this.#options;
    const { added } = load();
    while (!signal.aborted) {
      if (this.#isLarge() || load().added - added > MOST_ELEMENTS) return true;
      await clock.sleep(LOOK, signal);
    }
    return false;
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
    const { clock, checkPeriod, own, load, lookAtElements, onDrift } = this.#options;
    let checked = clock.monotonic();
    let lookedAtElements = checked;
    let { steps } = load();
    while (!signal.aborted) {
      await clock.sleep(LOOK, signal);
      if (signal.aborted) return;
      const now = clock.monotonic();
      // While the kernel takes changes of the table, the table is there.
      const isQuiet = steps === load().steps;
      steps = load().steps;
      if (isQuiet && this.#isLarge() || now - checked >= checkPeriod) {
        checked = now;
        own.expire();
        await this.#look(signal);
      }
      if (this.#isLarge() && now - lookedAtElements >= ELEMENTS_PERIOD) {
        lookedAtElements = now;
        const missing = await lookAtElements();
        if (missing !== undefined) onDrift(missing);
      }
    }
  }

  /** Looks for chains and sets that are gone, and for chains that have fewer rules than they should. */
  async #look(signal: AbortSignal): Promise<void> {
    const { clock, load, onDrift } = this.#options;
    let gone = await this.#findGone();
    const { steps, isBusy } = load();
    if (isBusy && gone.length > 0) {
      // A script may have deleted what is expected until it has ended.
      while (load().steps === steps && !signal.aborted) await clock.sleep(GATHER, signal);
      const still = new Set(await this.#findGone());
      gone = gone.filter((each) => still.has(each));
    }
    if (gone.length > 0) onDrift(gone.slice(0, MAX_NAMED).join(", "));
  }

  async #findGone(): Promise<readonly string[]> {
    const { nft, expectedRules } = this.#options;
    const before = [...expectedRules()];
    const found = await nft.ruleCounts().catch(() => undefined);
    if (!found) return [];
    // A sync that ran meanwhile may have changed what was expected when the look began.
    const after = new Map(expectedRules());
    return before.flatMap(([name, rules]) => {
      const rulesNow = after.get(name);
      if (rulesNow === undefined) return [];
      const present = found.get(name);
      if (present === undefined) return [name];
      return present < Math.min(rules, rulesNow) ? [`rule of ${name}`] : [];
    });
  }
}

const MAX_NAMED = 5;

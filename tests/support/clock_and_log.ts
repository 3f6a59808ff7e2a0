/** A clock that tests own and a log that they read, in the place of the real ones. */
import type { Clock, LogFields, Logger } from "../../lib/model/ports/ports.ts";
import { SystemClock } from "../../lib/system/clock.ts";

const systemClock = new SystemClock();

/** Real time. */
export const realClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  sleep: (milliseconds, signal) => systemClock.sleep(milliseconds, signal),
};

/** A clock by which each piece of work takes so long that others have their turn, and that counts turns. */
export class LongTurns implements Clock {
  turns = 0;
  #time = 0;

  now(): number {
    return 0;
  }

  monotonic(): number {
    return this.#time += 1_000;
  }

  sleep(): Promise<void> {
    this.turns++;
    return Promise.resolve();
  }
}

/** A wall-clock time for those who look at it. */
export const START = Date.parse("2026-01-02T03:04:05.000Z");

/** Time that passes only when told, and remembers how long others wanted to sleep. */
export class ManualClock implements Clock {
  readonly sleeps: number[] = [];
  /** Milliseconds that pass whenever someone looks at the clock: work takes time. */
  work = 0;
  #time = 0;
  #waiting: { readonly until: number; readonly wake: () => void }[] = [];

  /**
   * @param start wall-clock time at monotonic 0, milliseconds since the epoch; without it the wall
   *   clock jumps about, for nothing may depend on it
   */
  constructor(readonly start?: number) {}

  now(): number {
    return this.start === undefined ? (this.#time * 7919) % 1_000_003 : this.start + this.#time;
  }

  monotonic(): number {
    return this.#time += this.work;
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    this.sleeps.push(milliseconds);
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const entry = { until: this.#time + milliseconds, wake: resolve };
      this.#waiting.push(entry);
      signal?.addEventListener("abort", () => {
        this.#waiting = this.#waiting.filter((other) => other !== entry);
        resolve();
      }, { once: true });
    });
  }

  /** Lets time pass, and wakes who slept long enough. */
  pass(milliseconds: number): void {
    this.#time += milliseconds;
    const due = this.#waiting.filter(({ until }) => until <= this.#time);
    this.#waiting = this.#waiting.filter(({ until }) => until > this.#time);
    for (const { wake } of due) wake();
  }

  /** Lets time pass, and those who slept run. */
  async advance(milliseconds: number): Promise<void> {
    this.pass(milliseconds);
    await settle();
  }
}

/**
 * Lets everything run that does not wait for time, files or the network: a turn of the event loop
 * runs all microtasks, and those that they add.
 */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A line as the log was given it. */
export interface LoggedLine {
  readonly level: "error" | "warn" | "info" | "debug";
  readonly message: string;
  readonly fields: LogFields;
}

/** A log that remembers. */
export class MemoryLogger implements Logger {
  /** Each line with its parts. */
  readonly entries: LoggedLine[] = [];
  error = (message: string, fields?: LogFields): void => this.#add("error", message, fields);
  warn = (message: string, fields?: LogFields): void => this.#add("warn", message, fields);
  info = (message: string, fields?: LogFields): void => this.#add("info", message, fields);
  debug = (_level: number, message: string, fields?: LogFields): void =>
    this.#add("debug", message, fields);

  /** The lines as `level message fields`. */
  readonly lines: string[] = [];

  /** The lines of one level. */
  at(level: string): readonly string[] {
    return this.lines.filter((line) => line.startsWith(`${level} `));
  }

  /** Messages of everything but debug lines. */
  get messages(): string[] {
    return this.entries.filter(({ level }) => level !== "debug").map(({ message }) => message);
  }

  /** Messages of warnings and errors. */
  get warnings(): string[] {
    return this.entries.filter(({ level }) => level === "warn" || level === "error")
      .map(({ message }) => message);
  }

  /** How many failures for this reason it was told of. */
  failures(reason: string): number {
    return this.entries.filter(({ fields }) => fields["reason"] === reason).length;
  }

  #add(level: LoggedLine["level"], message: string, fields: LogFields = {}): void {
    this.entries.push({ level, message, fields });
    this.lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  }
}

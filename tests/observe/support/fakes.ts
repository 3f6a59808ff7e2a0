/**
 * Stand-ins for the clock and the log.
 *
 * @module
 */
import type { Clock, LogFields, Logger } from "../../../lib/model/ports.ts";

/** A clock that stands still until it is told to go on. */
export class FakeClock implements Clock {
  #elapsed = 0;
  readonly #sleepers: { readonly until: number; readonly wake: () => void }[] = [];

  /** @param start wall-clock time at monotonic 0, milliseconds since the epoch */
  constructor(readonly start: number = Date.parse("2026-01-02T03:04:05.000Z")) {}

  now(): number {
    return this.start + this.#elapsed;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((wake) => {
      this.#sleepers.push({ until: this.#elapsed + milliseconds, wake });
      signal?.addEventListener("abort", () => wake(), { once: true });
    });
  }

  /** Lets time pass, and wakes who slept long enough. */
  pass(milliseconds: number): void {
    this.#elapsed += milliseconds;
    for (const sleeper of [...this.#sleepers]) {
      if (sleeper.until > this.#elapsed) continue;
      this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1);
      sleeper.wake();
    }
  }

  /** Lets time pass, and lets those run who were woken. */
  async advance(milliseconds: number): Promise<void> {
    this.pass(milliseconds);
    await settle();
  }
}

/** Lets everything run that waits for nothing but its turn. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setTimeout(resolve));
}

/** A line as the logger was given it. */
export interface LoggedLine {
  readonly level: "error" | "warn" | "info" | "debug";
  readonly message: string;
  readonly fields: LogFields;
}

/** A logger that remembers. */
export class FakeLogger implements Logger {
  readonly lines: LoggedLine[] = [];

  error(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "error", message, fields });
  }

  warn(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "warn", message, fields });
  }

  info(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "info", message, fields });
  }

  debug(_level: number, message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "debug", message, fields });
  }

  /** Messages of everything but debug lines. */
  get messages(): string[] {
    return this.lines.filter(({ level }) => level !== "debug").map(({ message }) => message);
  }
}

/**
 * A clock and a log for the tests of conntrack.
 *
 * @module
 */
import type { Clock, Logger } from "../../lib/model/ports.ts";

/** A clock that stands still until it is moved. */
export class StillClock implements Clock {
  time = 0;

  now(): number {
    return this.time;
  }

  monotonic(): number {
    return this.time;
  }

  sleep(): Promise<void> {
    return Promise.resolve();
  }
}

/** Keeps the warnings. */
export class KeptLog implements Logger {
  readonly warnings: string[] = [];

  error(message: string): void {
    this.warnings.push(message);
  }

  warn(message: string): void {
    this.warnings.push(message);
  }

  info(): void {}

  debug(): void {}
}

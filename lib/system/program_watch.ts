/** Adapter: runs programs by another runner, logs those that take long, and reports those that fail. */
import {
  type Clock,
  type Logger,
  type ProcessInput,
  type ProcessResult,
  type ProcessRunner,
  ProgramFailedError,
  type ProgramFailure,
} from "../model/ports/ports.ts";

/** Milliseconds after which the log says which program is waited for. */
const SLOW = 30_000;

interface ProgramWatchOptions {
  readonly runner: ProcessRunner;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
}

/** Called with a program that could not be started, was killed, or did not end in time. */
type ProgramFailureListener = (program: string, failure: ProgramFailure) => void;

export class ProgramWatch implements ProcessRunner {
  readonly #early: (readonly [string, ProgramFailure])[] = [];
  #listener: ProgramFailureListener = (...failure) => this.#early.push(failure);

  constructor(private readonly options: ProgramWatchOptions) {}

  reportTo(listener: ProgramFailureListener): void {
    for (const failure of this.#early.splice(0)) listener(...failure);
    this.#listener = listener;
  }

  async run(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    const { runner, clock, logger } = this.options;
    const over = new AbortController();
    void clock.sleep(SLOW, over.signal).then(() => {
      if (over.signal.aborted) return;
      logger.warn("a program takes long; signpost waits, and kills it at its time limit", {
        program: argv.join(" "),
        seconds: SLOW / 1000,
      });
    });
    try {
      return await runner.run(argv, stdin);
    } catch (error) {
      if (error instanceof ProgramFailedError) this.#listener(error.program, error.failure);
      throw error;
    } finally {
      over.abort();
    }
  }
}

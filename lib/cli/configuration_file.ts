/**
 * The file that `--config` names, as it was read last, and the wait for it to change.
 *
 * @module
 */
import type { Clock } from "../model/ports/ports.ts";

/**
 * Milliseconds between two looks at the file. A look is what works for every kind of change: an editor
 * that replaces the file, a ConfigMap whose symbolic link is swapped, a file system that notifies of
 * nothing.
 */
const LOOK_PERIOD = 1_000;

/** Remembers what was read. */
export class ConfigurationFile {
  readonly #read: (path: string) => Promise<string>;
  #path: string | undefined;
  #last: string | undefined;

  /** @param read reads a file as text */
  constructor(read: (path: string) => Promise<string>) {
    this.#read = read;
  }

  /** What was read last; `null`: nothing was. */
  get contents(): { readonly path: string; readonly text: string } | null {
    return this.#path === undefined || this.#last === undefined
      ? null
      : { path: this.#path, text: this.#last };
  }

  /** Reads a file, and remembers it as the one to watch. */
  readonly read = async (path: string): Promise<string> => {
    this.#path = path;
    this.#last = undefined;
    return this.#last = await this.#read(path);
  };

  /**
   * Calls back whenever the file differs from what was read last, until the signal aborts. A file that
   * has been read by then counts as known, whatever came of it. A change counts when two looks see the
   * same, so that a file which is being written is left alone.
   */
  async watch(
    changed: () => Promise<void>,
    { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  ): Promise<void> {
    if (this.#path === undefined) return;
    let before = this.#last;
    while (!signal.aborted) {
      await clock.sleep(LOOK_PERIOD, signal);
      if (signal.aborted) return;
      const now = await this.#read(this.#path).catch(() => undefined);
      if (now !== this.#last && now === before && !signal.aborted) await changed();
      before = now;
    }
  }
}

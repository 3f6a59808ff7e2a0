/** Remembers the file of `--config`, and tells if it has changed. */
export class ConfigurationFile {
  readonly #read: (path: string) => Promise<string>;
  #path: string | undefined;
  #last: string | undefined;
  /** The text that the last look found. */
  #seen: string | undefined;

  constructor(read: (path: string) => Promise<string>) {
    this.#read = read;
  }

  get contents(): { readonly path: string; readonly text: string } | null {
    return this.#path === undefined || this.#last === undefined
      ? null
      : { path: this.#path, text: this.#last };
  }

  /** Reads a file, and remembers it as the one to watch. */
  readonly read = async (path: string): Promise<string> => {
    this.#path = path;
    this.#last = undefined;
    return this.#seen = this.#last = await this.#read(path);
  };

  /**
   * Reads the file. Watching it would miss changes: a ConfigMap swaps a symbolic link, some file systems report nothing.
   * @returns true if the text differs from that of the last read. Two looks must see the same: the file may be half written
   */
  async hasChanged(): Promise<boolean> {
    if (this.#path === undefined) return false;
    const now = await this.#read(this.#path).catch(() => undefined);
    const isSettled = now === this.#seen;
    this.#seen = now;
    return isSettled && now !== this.#last;
  }
}

/**
 * Bytes to lines, for watch streams: one JSON value a line.
 *
 * @module
 */

/** Thrown where a stream is not made of whole lines of UTF-8. */
export class LineError extends Error {
  override name = "LineError";
}

/** Longest line in bytes; etcd takes objects of 1.5 MiB, so nothing sound comes near it. */
const MAX_LINE = 16 * 1024 * 1024;

const NEWLINE = 0x0a;

/**
 * Splits a stream into lines, and yields those that each chunk completes together.
 *
 * Only whole lines are decoded, so a character may be split between chunks.
 *
 * @param chunks the stream
 * @param options `maxLine`: longest line in bytes, 16 MiB by default
 * @throws {LineError} at a line that is too long or no UTF-8, and at a last line without its end
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  options: { readonly maxLine?: number } = {},
): AsyncGenerator<readonly string[]> {
  const splitter = new LineSplitter(options.maxLine ?? MAX_LINE);
  for await (const chunk of chunks) {
    const lines = splitter.push(chunk);
    if (lines.length > 0) yield lines;
  }
  splitter.end();
}

class LineSplitter {
  /** Parts of the line whose end has not come yet. */
  #parts: Uint8Array[] = [];
  #length = 0;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });

  constructor(private readonly maxLine: number) {}

  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let start = 0;
    for (
      let end = chunk.indexOf(NEWLINE);
      end >= 0;
      start = end + 1, end = chunk.indexOf(NEWLINE, start)
    ) {
      const line = this.#complete(chunk.subarray(start, end));
      if (line !== "" && line !== "\r") lines.push(line);
    }
    if (start < chunk.length) this.#keep(chunk.slice(start));
    return lines;
  }

  end(): void {
    if (this.#length > 0) {
      throw new LineError(`the stream ended within a line, after ${this.#length} bytes of it`);
    }
  }

  #complete(last: Uint8Array): string {
    if (this.#length === 0) return this.#decode(last);
    this.#keep(last);
    const whole = new Uint8Array(this.#length);
    let offset = 0;
    for (const part of this.#parts) {
      whole.set(part, offset);
      offset += part.length;
    }
    this.#parts = [];
    this.#length = 0;
    return this.#decode(whole);
  }

  #keep(part: Uint8Array): void {
    this.#length += part.length;
    if (this.#length > this.maxLine) {
      throw new LineError(`a line is longer than ${this.maxLine} bytes`);
    }
    this.#parts.push(part);
  }

  #decode(bytes: Uint8Array): string {
    try {
      return this.#decoder.decode(bytes);
    } catch (cause) {
      throw new LineError("a line is no UTF-8", { cause });
    }
  }
}

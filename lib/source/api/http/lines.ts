/**
 * Splits JSON watch streams into lines.
 *
 * @module
 */
import { MAX_PIECE, Remainder, split, SplitError, type Splitter } from "./pieces.ts";

const NEWLINE = 0x0a;

/**
 * Splits a stream into lines, and yields the lines that each chunk completes.
 *
 * Only complete lines are decoded, because a character may be split between chunks.
 *
 * @param chunks the stream
 * @param options `maxLine`: longest line in bytes, 16 MiB by default
 * @throws {SplitError} if a line is too long or no UTF-8, or the last line is incomplete
 */
export function splitLines(
  chunks: AsyncIterable<Uint8Array>,
  options: { readonly maxLine?: number } = {},
): AsyncIterable<readonly string[]> {
  return split(chunks, new LineSplitter(options.maxLine ?? MAX_PIECE));
}

class LineSplitter implements Splitter<string> {
  readonly #remainder = new Remainder();
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
      this.#checkLength(end - start);
      const line = this.#decode(this.#remainder.join(chunk.subarray(start, end)));
      if (line !== "" && line !== "\r") lines.push(line);
    }
    this.#checkLength(chunk.length - start);
    this.#remainder.keep(chunk.subarray(start));
    return lines;
  }

  end(): void {
    const { length } = this.#remainder;
    if (length > 0) {
      throw new SplitError(`the stream ended within a line, after ${length} bytes of it`);
    }
  }

  #checkLength(more: number): void {
    if (this.#remainder.length + more > this.maxLine) {
      throw new SplitError(`a line is longer than ${this.maxLine} bytes`);
    }
  }

  #decode(bytes: Uint8Array): string {
    try {
      return this.#decoder.decode(bytes);
    } catch (cause) {
      throw new SplitError("a line is no UTF-8", { cause });
    }
  }
}

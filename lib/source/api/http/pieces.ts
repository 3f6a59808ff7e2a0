/**
 * Splits a byte stream into pieces: the common part of lines and frames.
 *
 * @module
 */

/** Thrown if a stream has an incomplete line or frame, or a line that is not UTF-8. */
export class SplitError extends Error {
  override name = "SplitError";
}

/** The longest line or frame in bytes. The largest object in etcd has 1.5 MiB. */
export const MAX_PIECE = 16 * 1024 * 1024;

/** Collects the parts of an incomplete piece. */
export class Remainder {
  /** Doubles when full. Bytes beyond `#length` are free. */
  #buffer = new Uint8Array();
  #length = 0;

  /** The number of bytes collected. */
  get length(): number {
    return this.#length;
  }

  /** Adds a copy of a part, because its chunk will be overwritten. */
  keep(part: Uint8Array): void {
    const length = this.#length + part.length;
    if (length > this.#buffer.length) {
      const buffer = new Uint8Array(Math.max(length, 2 * this.#buffer.length));
      buffer.set(this.#buffer.subarray(0, this.#length));
      this.#buffer = buffer;
    }
    this.#buffer.set(part, this.#length);
    this.#length = length;
  }

  /** Returns the complete piece with its last part, and starts a new one. */
  join(last: Uint8Array): Uint8Array {
    if (this.#length === 0) return last;
    this.keep(last);
    const piece = this.#buffer.subarray(0, this.#length);
    this.#buffer = new Uint8Array();
    this.#length = 0;
    return piece;
  }
}

/** Splits chunks into pieces. */
export interface Splitter<T> {
  /** Returns the pieces that a chunk completes. */
  push(chunk: Uint8Array): readonly T[];
  /**
   * Checks the end of the stream.
   *
   * @throws {SplitError} if it is within a piece
   */
  end(): void;
}

/** Splits a stream, and yields the pieces that each chunk completes. */
export async function* split<T>(
  chunks: AsyncIterable<Uint8Array>,
  splitter: Splitter<T>,
): AsyncGenerator<readonly T[]> {
  for await (const chunk of chunks) {
    const pieces = splitter.push(chunk);
    if (pieces.length > 0) yield pieces;
  }
  splitter.end();
}

/**
 * Pieces of a stream of bytes that come in parts: what lines and frames have in common.
 *
 * @module
 */

/** Thrown where a stream is not made of complete lines of UTF-8, or of complete frames. */
export class SplitError extends Error {
  override name = "SplitError";
}

/** Longest line or frame in bytes; etcd takes objects of 1.5 MiB, so nothing sound comes near it. */
export const MAX_PIECE = 16 * 1024 * 1024;

/** Gathers the parts of a piece whose end has not come yet, however small they are. */
export class Remainder {
  /** Grows by doubling; what is beyond `#length` is free. */
  #buffer = new Uint8Array();
  #length = 0;

  /** Bytes gathered. */
  get length(): number {
    return this.#length;
  }

  /** Adds a copy of a part: the chunk that it lies in will be overwritten. */
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

  /** All of the piece, of which this is the last part. What follows is another one. */
  join(last: Uint8Array): Uint8Array {
    if (this.#length === 0) return last;
    this.keep(last);
    const piece = this.#buffer.subarray(0, this.#length);
    this.#buffer = new Uint8Array();
    this.#length = 0;
    return piece;
  }
}

/** Makes pieces of chunks. */
export interface Splitter<T> {
  /** The pieces that a chunk completes. */
  push(chunk: Uint8Array): readonly T[];
  /**
   * The stream has ended.
   *
   * @throws {SplitError} where it has within a piece
   */
  end(): void;
}

/** Splits a stream, and yields the pieces that each chunk completes together. */
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

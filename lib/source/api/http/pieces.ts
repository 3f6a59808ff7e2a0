/**
 * Pieces of a stream of bytes that come in parts: what lines and frames have in common.
 *
 * @module
 */

/** Thrown where a stream is not made of whole lines of UTF-8, or of whole frames. */
export class SplitError extends Error {
  override name = "SplitError";
}

/** Longest line or frame in bytes; etcd takes objects of 1.5 MiB, so nothing sound comes near it. */
export const MAX_PIECE = 16 * 1024 * 1024;

/** Gathers the parts of a piece whose end has not come yet. */
export class Remainder {
  #parts: Uint8Array[] = [];
  #length = 0;

  /** Bytes gathered. */
  get length(): number {
    return this.#length;
  }

  /** Adds a copy of a part: the chunk that it lies in will be overwritten. */
  keep(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#parts.push(part.slice());
    this.#length += part.length;
  }

  /** The whole piece, of which this is the last part. What follows is another one. */
  join(last: Uint8Array): Uint8Array {
    if (this.#length === 0) return last;
    const whole = new Uint8Array(this.#length + last.length);
    let offset = 0;
    for (const part of [...this.#parts, last]) {
      whole.set(part, offset);
      offset += part.length;
    }
    this.#parts = [];
    this.#length = 0;
    return whole;
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

/**
 * Bytes to frames, for watch streams in protobuf: each frame comes behind its length, four bytes
 * with the highest first (k8s.io/apimachinery/pkg/util/framer).
 *
 * @module
 */
import { MAX_PIECE, Remainder, split, SplitError, type Splitter } from "./pieces.ts";

/** Bytes of a frame's length. */
const HEADER = 4;

/**
 * Splits a stream into frames, and yields those that each chunk completes together. They are valid
 * until the next ones are asked for, as the chunks are.
 *
 * @param chunks the stream
 * @param options `maxFrame`: longest frame in bytes, 16 MiB by default
 * @throws {SplitError} at a frame that is too long, and at a last one without its end
 */
export function splitFrames(
  chunks: AsyncIterable<Uint8Array>,
  options: { readonly maxFrame?: number } = {},
): AsyncIterable<readonly Uint8Array[]> {
  return split(chunks, new FrameSplitter(options.maxFrame ?? MAX_PIECE));
}

class FrameSplitter implements Splitter<Uint8Array> {
  readonly #remainder = new Remainder();
  /** Length of the frame that comes; `undefined`: its header comes. */
  #length: number | undefined;

  constructor(private readonly maxFrame: number) {}

  push(chunk: Uint8Array): Uint8Array[] {
    const frames: Uint8Array[] = [];
    let start = 0;
    for (;;) {
      const end = start + (this.#length ?? HEADER) - this.#remainder.length;
      if (end > chunk.length) break;
      const piece = this.#remainder.join(chunk.subarray(start, end));
      start = end;
      if (this.#length === undefined) this.#length = this.#readHeader(piece);
      else {
        frames.push(piece);
        this.#length = undefined;
      }
    }
    this.#remainder.keep(chunk.subarray(start));
    return frames;
  }

  end(): void {
    if (this.#length !== undefined || this.#remainder.length > 0) {
      throw new SplitError(
        `the stream ended within a frame, after ${this.#remainder.length} bytes of it`,
      );
    }
  }

  #readHeader(piece: Uint8Array): number {
    const length = new DataView(piece.buffer, piece.byteOffset, HEADER).getUint32(0);
    if (length > this.maxFrame) {
      throw new SplitError(`a frame is longer than ${this.maxFrame} bytes`);
    }
    return length;
  }
}

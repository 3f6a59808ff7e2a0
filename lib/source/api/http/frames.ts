/**
 * Splits protobuf watch streams into frames. A big-endian length of four bytes precedes each frame
 * (k8s.io/apimachinery/pkg/util/framer).
 *
 * @module
 */
import { MAX_PIECE, Remainder, split, SplitError, type Splitter } from "./pieces.ts";

/** The bytes of a frame's length. */
const HEADER = 4;

/**
 * Splits a stream into frames. It yields the frames that each chunk completes; they are valid until
 * the next call.
 *
 * @param chunks the stream
 * @param options `maxFrame`: longest frame in bytes, 16 MiB by default
 * @throws {SplitError} if a frame is too long, or the last one is incomplete
 */
export function splitFrames(
  chunks: AsyncIterable<Uint8Array>,
  options: { readonly maxFrame?: number } = {},
): AsyncIterable<readonly Uint8Array[]> {
  return split(chunks, new FrameSplitter(options.maxFrame ?? MAX_PIECE));
}

class FrameSplitter implements Splitter<Uint8Array> {
  readonly #remainder = new Remainder();
  /** The length of the next frame; `undefined` while its header is incomplete. */
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

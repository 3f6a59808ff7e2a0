/**
 * Splits watch streams into their pieces: lines of JSON, or frames of protobuf.
 *
 * @module
 */

/** Thrown if a stream has an incomplete line or frame, or a line that is not UTF-8. */
export class SplitError extends Error {
  override name = "SplitError";
}

/** The longest line or frame in bytes. The largest object in etcd has 1.5 MiB. */
const MAX_PIECE = 16 * 1024 * 1024;

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

const NEWLINE = 0x0a;

/**
 * Splits a stream into lines, and yields the lines that each chunk completes. Only complete lines
 * are decoded, because a character may be split between chunks.
 *
 * @param options `maxLine`: the longest line in bytes
 * @throws {SplitError} if a line is too long or no UTF-8, or the last line is incomplete
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  { maxLine = MAX_PIECE }: { readonly maxLine?: number } = {},
): AsyncGenerator<readonly string[]> {
  const remainder = new Remainder();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const checkLength = (more: number) => {
    if (remainder.length + more <= maxLine) return;
    throw new SplitError(`a line is longer than ${maxLine} bytes`);
  };
  for await (const chunk of chunks) {
    const lines: string[] = [];
    let start = 0;
    for (let end; (end = chunk.indexOf(NEWLINE, start)) >= 0; start = end + 1) {
      checkLength(end - start);
      const line = decodeLine(decoder, remainder.join(chunk.subarray(start, end)));
      if (line !== "" && line !== "\r") lines.push(line);
    }
    checkLength(chunk.length - start);
    remainder.keep(chunk.subarray(start));
    if (lines.length > 0) yield lines;
  }
  if (remainder.length > 0) {
    throw new SplitError(`the stream ended within a line, after ${remainder.length} bytes of it`);
  }
}

function decodeLine(decoder: TextDecoder, bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new SplitError("a line is no UTF-8", { cause });
  }
}

/** The bytes of a frame's length. */
const HEADER = 4;

/**
 * Splits a stream into frames, and yields the frames that each chunk completes; they are valid
 * until the next call. A big-endian length of four bytes precedes each frame
 * (k8s.io/apimachinery/pkg/util/framer).
 *
 * @param options `maxFrame`: the longest frame in bytes
 * @throws {SplitError} if a frame is too long, or the last one is incomplete
 */
export async function* splitFrames(
  chunks: AsyncIterable<Uint8Array>,
  { maxFrame = MAX_PIECE }: { readonly maxFrame?: number } = {},
): AsyncGenerator<readonly Uint8Array[]> {
  const remainder = new Remainder();
  /** The length of the next frame; `undefined` while its header is incomplete. */
  let length: number | undefined;
  for await (const chunk of chunks) {
    const frames: Uint8Array[] = [];
    let start = 0;
    for (;;) {
      const end = start + (length ?? HEADER) - remainder.length;
      if (end > chunk.length) break;
      const piece = remainder.join(chunk.subarray(start, end));
      start = end;
      if (length === undefined) {
        length = new DataView(piece.buffer, piece.byteOffset, HEADER).getUint32(0);
        if (length > maxFrame) throw new SplitError(`a frame is longer than ${maxFrame} bytes`);
      } else {
        frames.push(piece);
        length = undefined;
      }
    }
    remainder.keep(chunk.subarray(start));
    if (frames.length > 0) yield frames;
  }
  if (length !== undefined || remainder.length > 0) {
    throw new SplitError(`the stream ended within a frame, after ${remainder.length} bytes of it`);
  }
}

/** Streams of bytes, cut into chunks as it pleases the network. */

/** A stream of these chunks. The buffer of each is overwritten when the next is asked for. */
export async function* chunks(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    const chunk = part.slice();
    yield await Promise.resolve(chunk);
    chunk.fill(0xaa);
  }
}

/** Cuts a stream at these lengths, as far as it goes. */
export function cutBy(stream: Uint8Array, sizes: Iterable<number>): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let start = 0;
  for (const size of sizes) {
    if (start >= stream.length) break;
    parts.push(stream.subarray(start, start + size));
    start += size;
  }
  return parts;
}

/** Writes a tar archive of texts (POSIX.1-2017, pax, "ustar Interchange Format"). */

interface ArchivedFile {
  /** Up to 100 bytes. */
  readonly path: string;
  readonly text: string;
}

const BLOCK = 512;

/** Returns the archive, by gzip. @param modified the time of all files, milliseconds since the epoch */
export async function gzippedTar(
  files: readonly ArchivedFile[],
  modified: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const blocks = files.flatMap(({ path, text }) => {
    const body = new TextEncoder().encode(text);
    return [headerOf(path, { size: body.length, modified }), padded(body)];
  });
  // Two empty blocks are the end.
  const tar = new Blob([...blocks, new Uint8Array(2 * BLOCK)]);
  return await new Response(tar.stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

function headerOf(
  path: string,
  { size, modified }: { readonly size: number; readonly modified: number },
): Uint8Array<ArrayBuffer> {
  const octal = (value: number, width: number) => value.toString(8).padStart(width, "0");
  const seconds = Math.floor(modified / 1_000);
  const before = path.padEnd(100, "\0") + `0000600\0${octal(0, 7)}\0${octal(0, 7)}\0` +
    `${octal(size, 11)}\0${octal(seconds, 11)}\0`;
  const after = `0${"\0".repeat(100)}ustar\0${"00"}`;
  // The checksum is that of a header with blanks in its place.
  const sum = new TextEncoder().encode(`${before}${" ".repeat(8)}${after}`)
    .reduce((all, byte) => all + byte, 0);
  return padded(new TextEncoder().encode(`${before}${octal(sum, 6)}\0 ${after}`));
}

function padded(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const blocks = new Uint8Array(Math.ceil(bytes.length / BLOCK) * BLOCK);
  blocks.set(bytes);
  return blocks;
}

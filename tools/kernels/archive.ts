/**
 * The archive that a kernel unpacks as its first root: cpio's "newc" form.
 *
 * @module
 */

/** A file or a folder of the archive. */
export interface ArchiveEntry {
  /** Without a `/` in front; its folders come before it. */
  readonly path: string;
  /** The file's content; a folder has none. */
  readonly content?: Uint8Array;
}

const FOLDER_MODE = 0o040755;
const FILE_MODE = 0o100755;

/** Writes the archive; every file is root's and can be executed. */
export function writeArchive(entries: readonly ArchiveEntry[]): Uint8Array<ArrayBuffer> {
  const parts = [
    ...entries.flatMap((entry, i) => writeEntry(entry, i + 1)),
    ...writeEntry({ path: "TRAILER!!!" }, 0),
  ];
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Header and name, then the content, each filled up to a multiple of 4 bytes. */
function writeEntry({ path, content }: ArchiveEntry, inode: number): Uint8Array[] {
  const mode = inode === 0 ? 0 : content === undefined ? FOLDER_MODE : FILE_MODE;
  const name = new TextEncoder().encode(`${path}\0`);
  const size = content?.length ?? 0;
  // inode, mode, uid, gid, links, time, size, four numbers of devices, length of the name, checksum
  const fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name.length, 0];
  const header = new TextEncoder().encode(
    `070701${fields.map((field) => field.toString(16).padStart(8, "0")).join("")}`,
  );
  return [header, name, filler(header.length + name.length), content ?? filler(0), filler(size)];
}

function filler(length: number): Uint8Array {
  return new Uint8Array((4 - length % 4) % 4);
}

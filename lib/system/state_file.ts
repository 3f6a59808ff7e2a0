/** Adapter: reads the state file, and replaces it atomically. It is compressed with gzip. */
import { dirname } from "@std/path/posix";
import { messageOf } from "../model/values/errors.ts";
import type { Decoder } from "../model/cluster/objects.ts";
import { plain } from "../model/values/text.ts";
import {
  type SavedState,
  StateError,
  type StateHeader,
  stateLines,
  type StateObjects,
  StateReader,
} from "../source/saved/format.ts";

/** Bytes of uncompressed text that are written and read; 30,000 Services of 10 endpoints have 60 MiB. */
const MAX_BYTES = 256 * 1024 * 1024;

/** Characters that are written, or bytes that are read, between two pauses. */
const BATCH = 16 * 1024;

export interface WriteStateOptions extends StateHeader {
  /** The file, whose folder must exist. */
  readonly path: string;
  /** Lets other work run, and is awaited every few milliseconds. */
  readonly pause: () => Promise<void>;
  /** Ends the write; the old file stays. */
  readonly signal?: AbortSignal;
  /** The limit of uncompressed text in bytes. @default 256 MiB */
  readonly maxBytes?: number;
}

interface ReadStateOptions {
  readonly nodeName: string;
  readonly decode: Decoder;
  /** Lets other work run, as in a write. */
  readonly pause?: WriteStateOptions["pause"];
  readonly maxBytes?: number;
}

/** Replaces the state file, mode 0600. One complete file exists at any moment. @throws {StateError} */
export async function writeStateFile(
  objects: StateObjects,
  options: WriteStateOptions,
): Promise<void> {
  const { path, signal } = options;
  const temporary = `${path}.tmp`;
  try {
    signal?.throwIfAborted();
    // A crash can leave a temporary file.
    await Deno.remove(temporary).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    await writeTemporary(temporary, objects, options);
    await Deno.rename(temporary, path);
    await flushFolder(dirname(path));
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    if (signal?.aborted) throw new StateError(`cannot write ${path}: the time ran out`);
    throw new StateError(
      `cannot write ${path}: ${writeReason(error, path).replaceAll(temporary, path)}`,
      { cause: error },
    );
  }
}

/** Returns true if a state file exists, even if it cannot be used. */
export async function hasStateFile(path: string): Promise<boolean> {
  // Another failure is reported when the file is written.
  return await Deno.lstat(path).then(() => true, () => false);
}

/** Returns the time in the header, milliseconds since the epoch; `undefined` if the file cannot be used. */
export async function stateFileTime(
  path: string,
  options: Pick<ReadStateOptions, "nodeName" | "decode">,
): Promise<number | undefined> {
  const reader = new StateReader(options);
  try {
    const file = await openTrusted(path);
    const text = file.readable.pipeThrough(new DecompressionStream("gzip"))
      .pipeThrough(new TextDecoderStream());
    for await (const chunk of text) {
      for (const line of chunk.split(/(?<=\n)/)) {
        reader.push(line);
        if (!isNaN(reader.written)) return reader.written;
      }
    }
  } catch {
    // The reason is logged if the file is needed.
  }
  return undefined;
}

/** Reads the state file. @returns `undefined` if it does not exist @throws {StateError} if it cannot be used */
export async function readStateFile(
  path: string,
  options: ReadStateOptions,
): Promise<SavedState | undefined> {
  try {
    const file = await openTrusted(path);
    const text = file.readable.pipeThrough(new DecompressionStream("gzip"));
    return await readStateText(text, options);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw new StateError(`cannot use ${path}: ${readReason(error)}`, { cause: error });
  }
}

/** Opens the file if only root or this process's user can have made it. */
async function openTrusted(path: string): Promise<Deno.FsFile> {
  const found = await Deno.lstat(path);
  if (found.isSymlink) throw new StateError("it is a symbolic link; remove it");
  if (!found.isFile) throw new StateError("it is not a regular file");
  if (found.uid !== 0 && found.uid !== Deno.uid()) {
    throw new StateError(`it belongs to the user ${found.uid}; remove it, or make it root's`);
  }
  if (((found.mode ?? 0) & 0o022) !== 0) {
    throw new StateError("other users may write to it; remove it, or set its mode to 0600");
  }
  const file = await Deno.open(path);
  const opened = await file.stat();
  if (opened.dev === found.dev && opened.ino === found.ino) return file;
  file.close();
  throw new StateError("it was replaced while it was opened");
}

/** Reads the text of a state. @throws {StateError} if it cannot be used */
export async function readStateText(
  text: AsyncIterable<Uint8Array<ArrayBuffer>>,
  { maxBytes, pause, ...options }: ReadStateOptions,
): Promise<SavedState> {
  const reader = new StateReader(options);
  // A byte order mark is refused, like all else that signpost does not write.
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const count = counting(maxBytes);
  for await (const chunk of text) {
    count(chunk);
    // A small compressed file can have a long text.
    for (let from = 0; from < chunk.length; from += BATCH) {
      reader.push(decoder.decode(chunk.subarray(from, from + BATCH), { stream: true }));
      await pause?.();
    }
  }
  reader.push(decoder.decode());
  return reader.finish();
}

async function writeTemporary(
  temporary: string,
  objects: StateObjects,
  options: WriteStateOptions,
): Promise<void> {
  // With createNew, Deno does not follow a file or link in this place.
  using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
  const packed = ReadableStream.from(stateText(objects, options))
    .pipeThrough(new CompressionStream("gzip"));
  for await (const chunk of packed) {
    for (let done = 0; done < chunk.length;) done += await file.write(chunk.subarray(done));
  }
  await file.sync();
}

/** Yields the text of a state in pieces, with a pause before each. */
export async function* stateText(
  objects: StateObjects,
  options: Omit<WriteStateOptions, "path">,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const { pause, signal, maxBytes } = options;
  const encoder = new TextEncoder();
  const count = counting(maxBytes);
  let batch = "";
  for (const line of stateLines(objects, options)) {
    batch += line;
    if (batch.length < BATCH) continue;
    yield count(encoder.encode(batch));
    batch = "";
    await pause();
    signal?.throwIfAborted();
  }
  yield count(encoder.encode(batch));
}

/** Returns a function that returns its bytes, and throws if their sum exceeds the limit. */
function counting(maxBytes = MAX_BYTES): <T extends Uint8Array>(bytes: T) => T {
  let size = 0;
  return (bytes) => {
    size += bytes.length;
    if (size > maxBytes) throw new StateError(`the state is larger than ${maxBytes} bytes`);
    return bytes;
  };
}

/** Flushes a folder. Without it, a loss of power can undo the rename (fsync(2)). */
async function flushFolder(folder: string): Promise<void> {
  using opened = await Deno.open(folder);
  await opened.sync();
}

function writeReason(error: unknown, path: string): string {
  const off = "or turn the state file off with --state-file ''";
  const folder = dirname(path);
  if (error instanceof Deno.errors.NotFound) {
    return `the folder ${folder} does not exist; make it (StateDirectory= in the unit does), ${off}`;
  }
  if (isRefusal(error)) return `${folder} is not writable for signpost; make it so, ${off}`;
  return plainMessage(error);
}

/** Returns true if the system, or Deno's own permissions, forbid it. */
function isRefusal(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    error instanceof Deno.errors.NotCapable ||
    error instanceof Error && "code" in error && error.code === "EROFS";
}

function readReason(error: unknown): string {
  if (error instanceof StateError) return error.message;
  // The decompressor and the text decoder throw it.
  if (error instanceof TypeError) return `it is damaged: ${plainMessage(error)}`;
  return plainMessage(error);
}

/** Returns one printable line: system errors name paths, which can hold any characters. */
function plainMessage(error: unknown): string {
  return plain(messageOf(error));
}

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { ObjectEvent } from "../../lib/model/cluster/objects.ts";
import { gunzipSync, gzipSync } from "node:zlib";
import {
  readStateFile,
  writeStateFile,
  type WriteStateOptions,
} from "../../lib/system/state_file.ts";
import { loadManifests } from "../../lib/source/manifests.ts";
import { denoFiles } from "../../lib/system/files.ts";
import { MemoryLogger } from "../support/clock_and_log.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { StateError, type StateObjects } from "../../lib/source/saved/format.ts";
import { run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";
import { eventsOf, HEADER, stateOf, textOf } from "../source/saved/states.ts";

/** Large enough for many batches. */
const LARGE = stateOf({ services: 600, endpoints: 20 });

const READ = { nodeName: HEADER.nodeName, decode: createDecoder(), pause: () => Promise.resolve() };

function test(name: string, body: (path: string, folder: string) => Promise<void>): void {
  Deno.test(name, async () => {
    await using folder = await makeFolder("state");
    await body(`${folder.path}/state.json.gz`, folder.path);
  });
}

function write(
  path: string,
  objects: StateObjects,
  options: Partial<WriteStateOptions> = {},
): Promise<void> {
  return writeStateFile(objects, { ...HEADER, path, pause: () => Promise.resolve(), ...options });
}

async function read(path: string, options: { readonly maxBytes?: number } = {}) {
  return (await readStateFile(path, { ...READ, ...options }))?.events;
}

async function readFailure(path: string): Promise<string> {
  return (await assertRejects(() => read(path), StateError)).message;
}

async function writeFailure(...parameters: Parameters<typeof write>): Promise<string> {
  return (await assertRejects(() => write(...parameters), StateError)).message;
}

function namesIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
}

test("a large state comes back", async (path) => {
  await write(path, LARGE);
  assertEquals(await read(path), eventsOf(LARGE));
  assertEquals(gunzipSync(Deno.readFileSync(path)).toString(), textOf(LARGE));
});

test("a state file is a manifest, as it is", async (path) => {
  const objects = stateOf({ services: 3, endpoints: 2 });
  await write(path, objects);
  const events: ObjectEvent[] = [];
  await loadManifests({
    paths: [path],
    ...READ,
    sink: (event) => void events.push(event),
    files: denoFiles,
    logger: new MemoryLogger(),
  });
  assertEquals(events as readonly unknown[], eventsOf(objects));
});

test("a missing file is not an error", async (path, folder) => {
  assertEquals(await read(path), undefined);
  assertEquals(await read(`${folder}/missing/state.json.gz`), undefined);
});

test("only its owner can read the state file, whatever the old one allowed", async (path) => {
  Deno.writeTextFileSync(path, "");
  Deno.chmodSync(path, 0o644);
  await write(path, LARGE);
  assertEquals((Deno.statSync(path).mode ?? 0) & 0o7777, 0o600);
});

test("the old file stays complete while the new one is written", async (path, folder) => {
  const old = stateOf({ services: 3 });
  await write(path, old);
  let pauses = 0;
  await write(path, LARGE, {
    pause: async () => {
      pauses++;
      assertEquals(await read(path), eventsOf(old));
      const [file, temporary] = namesIn(folder);
      assertEquals(file, "state.json.gz");
      assertEquals((Deno.statSync(`${folder}/${temporary}`).mode ?? 0) & 0o7777, 0o600);
    },
  });
  assert(pauses > 10, `${pauses} pauses`);
  assertEquals(await read(path), eventsOf(LARGE));
  assertEquals(namesIn(folder), ["state.json.gz"]);
});

test("while it is read, others have their turn, however small the file is", async (path) => {
  await write(path, LARGE);
  let pauses = 0;
  const pause = () => Promise.resolve(void pauses++);
  const saved = await readStateFile(path, { ...READ, pause });
  assertEquals(saved?.events, eventsOf(LARGE));
  assert(pauses > 10, `${pauses} pauses`);
});

test("a write that fails on the way leaves the old file and nothing else", async (path, folder) => {
  const old = stateOf({ services: 3 });
  await write(path, old);
  for (const failAt of [1, 2, 7]) {
    let pauses = 0;
    const message = await writeFailure(path, LARGE, {
      pause: () => ++pauses === failAt ? Promise.reject(new Error("broken")) : Promise.resolve(),
    });
    assertEquals(message, `cannot write ${path}: broken`);
    assertEquals(await read(path), eventsOf(old));
    assertEquals(namesIn(folder), ["state.json.gz"]);
  }
});

test("a write that is given up leaves the old file and nothing else", async (path, folder) => {
  const old = stateOf({ services: 3 });
  await write(path, old);
  const controller = new AbortController();
  const message = await writeFailure(path, LARGE, {
    signal: controller.signal,
    pause: () => Promise.resolve(controller.abort()),
  });
  assertEquals(message, `cannot write ${path}: the time ran out`);
  await writeFailure(path, LARGE, { signal: AbortSignal.abort() });
  assertEquals(await read(path), eventsOf(old));
  assertEquals(namesIn(folder), ["state.json.gz"]);
});

/** Mounts a disk until disposed. */
async function mountDisk(folder: string, options: string): Promise<AsyncDisposable> {
  await run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]);
  return { [Symbol.asyncDispose]: async () => void await run(["umount", folder]) };
}

test("a full disk leaves the old file and nothing else", async (path, folder) => {
  await using _ = await mountDisk(folder, "size=32k,mode=700");
  const old = stateOf({ services: 3 });
  await write(path, old);
  const failed = await writeFailure(path, stateOf({ services: 20_000 }));
  assertStringIncludes(failed, `cannot write ${path}: No space left on device`);
  assertEquals(await read(path), eventsOf(old));
  assertEquals(namesIn(folder), ["state.json.gz"]);
});

test("a read-only disk is named", async (path, folder) => {
  await using _ = await mountDisk(folder, "ro");
  assertEquals(
    await writeFailure(path, LARGE),
    `cannot write ${path}: ${folder} is not writable for signpost; make it so, ` +
      "or turn the state file off with --state-file ''",
  );
});

Deno.test({
  name: "a folder that Deno's permissions do not cover is not writable",
  permissions: { read: true },
  fn: async () => {
    assertStringIncludes(
      await writeFailure("/var/state.json.gz", LARGE),
      "cannot write /var/state.json.gz: /var is not writable for signpost",
    );
  },
});

test("a folder that is missing is named", async (_path, folder) => {
  assertEquals(
    await writeFailure(`${folder}/none/state.json.gz`, LARGE),
    `cannot write ${folder}/none/state.json.gz: the folder ${folder}/none does not exist; make ` +
      "it (StateDirectory= in the unit does), or turn the state file off with --state-file ''",
  );
  assertEquals(namesIn(folder), []);
});

test("a failure reads the same each time, so that it is logged once", async (path) => {
  Deno.mkdirSync(path);
  assertEquals(await writeFailure(path, LARGE), await writeFailure(path, LARGE));
});

test(
  "the file of a write that a crash ended is replaced",
  async (path, folder) => {
    const other = `${folder}/other`;
    for (
      const leave of [() => Deno.writeTextFileSync(`${path}.tmp`, "x"), () => {
        Deno.writeTextFileSync(other, "kept");
        Deno.symlinkSync(other, `${path}.tmp`);
      }]
    ) {
      leave();
      await write(path, LARGE);
      assertEquals(await read(path), eventsOf(LARGE));
    }
    assertEquals(Deno.readTextFileSync(other), "kept");
    assertEquals(namesIn(folder), ["other", "state.json.gz"]);
  },
);

test("a state that could not be read again is not written", async (path, folder) => {
  const message = await writeFailure(path, LARGE, { maxBytes: 100_000 });
  assertEquals(message, `cannot write ${path}: the state is larger than 100000 bytes`);
  assertEquals(namesIn(folder), []);
});

test("a file that is too large once unpacked is refused", async (path) => {
  await write(path, LARGE);
  const message =
    (await assertRejects(() => read(path, { maxBytes: 100_000 }), StateError)).message;
  assertEquals(message, `cannot use ${path}: the state is larger than 100000 bytes`);
});

test(
  "a file that takes the place of a trusted one before it is opened is refused",
  async (path, folder) => {
    await write(path, LARGE);
    await write(`${folder}/other`, LARGE);
    const { lstat } = Deno;
    Deno.lstat = async (found) => {
      const info = await lstat(found);
      await Deno.rename(`${folder}/other`, path);
      return info;
    };
    try {
      const message = `cannot use ${path}: it was replaced while it was opened`;
      assertEquals(await readFailure(path), message);
    } finally {
      Deno.lstat = lstat;
    }
  },
);

test("a small file that unpacks to a line of 64 MiB is refused", async (path) => {
  const zeros = gzipSync(new Uint8Array(64 * 1024 * 1024));
  Deno.writeFileSync(path, zeros, { mode: 0o600 });
  const message = `cannot use ${path}: it is damaged: line 0 is too long`;
  assertEquals(await readFailure(path), message);
});

function unpacked(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Response(ReadableStream.from([bytes]).pipeThrough(new DecompressionStream("gzip")))
    .text();
}

test("a changed byte of the file is refused, or changes nothing at all", async (path) => {
  const objects = stateOf({ services: 4, endpoints: 3 });
  await write(path, objects);
  const good = Deno.readFileSync(path);
  const text = await unpacked(good);
  for (let position = 0; position < good.length; position++) {
    const damaged = good.slice();
    damaged[position] = (good[position] ?? 0) ^ (1 << position % 8);
    Deno.writeFileSync(path, damaged);
    try {
      assertEquals(await read(path), eventsOf(objects));
      // gzip does not check its flags and time, and deflate has several codes for a text (RFC 1951, 1952).
      assertEquals(await unpacked(damaged), text);
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      assertStringIncludes(error.message, `cannot use ${path}: it is`);
    }
  }
});

test("a file that was cut off anywhere is refused", async (path) => {
  await write(path, stateOf({ services: 4 }));
  const good = Deno.readFileSync(path);
  for (let length = 0; length < good.length; length++) {
    Deno.writeFileSync(path, good.subarray(0, length));
    await readFailure(path);
  }
  for (const more of [new Uint8Array(1), new Uint8Array(512), good]) {
    Deno.writeFileSync(path, new Uint8Array([...good, ...more]));
    await readFailure(path);
  }
});

test("a file of anything else is refused with one line", async (path) => {
  const texts = ["", "hello\n", textOf(LARGE), "\0\n\x1b[31m"];
  const contents = [
    ...texts.map((text) => new TextEncoder().encode(text)),
    gzipSync("hello\n"),
    gzipSync(""),
    gzipSync(new Uint8Array([0xff, 0xfe, 0x0a])),
    gzipSync("\uFEFF" + textOf(LARGE)),
  ];
  for (const content of contents) {
    Deno.writeFileSync(path, content, { mode: 0o600 });
    const message = await readFailure(path);
    assert(message.startsWith(`cannot use ${path}: it is `), message);
    assert([...message].every((character) => character >= " " && character <= "~"), message);
  }
});

test("a file that is not regular is refused", async (path, folder) => {
  const refused = (path: string) => `cannot use ${path}: it is not a regular file`;
  assertEquals(await readFailure(folder), refused(folder));
  await run(["mkfifo", path]);
  assertEquals(await readFailure(path), refused(path));
});

test("a symbolic link is refused, wherever it leads", async (path, folder) => {
  await write(`${folder}/real`, LARGE);
  Deno.symlinkSync(`${folder}/real`, path);
  assertEquals(await readFailure(path), `cannot use ${path}: it is a symbolic link; remove it`);
  Deno.removeSync(`${folder}/real`);
  assertStringIncludes(await readFailure(path), "it is a symbolic link");
});

test("a file of another user is refused", async (path) => {
  await write(path, LARGE);
  Deno.chownSync(path, 65_534, null);
  assertEquals(
    await readFailure(path),
    `cannot use ${path}: it belongs to the user 65534; remove it, or make it root's`,
  );
});

test("a file that others may write to is refused", async (path) => {
  await write(path, LARGE);
  Deno.chmodSync(path, 0o620);
  assertStringIncludes(await readFailure(path), "other users may write to it");
});

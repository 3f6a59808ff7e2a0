import { assert, assertEquals, assertRejects } from "@std/assert";
import { denoFiles } from "../../lib/system/files.ts";
import {
  followManifests,
  loadManifests,
  ManifestError,
  type ManifestFiles,
} from "../../lib/source/manifests.ts";
import { eventually } from "../support/eventually.ts";
import { fakeDecode, MemorySink } from "./api/fakes.ts";
import { MemoryLogger, realClock } from "../support/clock_and_log.ts";
import { makeFolder } from "../support/folder.ts";

function service(name: string, version = "1"): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}, labels: {version: "${version}"}}\n`;
}

interface Case {
  readonly folder: string;
  readonly sink: MemorySink;
  readonly logger: MemoryLogger;
  write(name: string, text: string): Promise<void>;
  load(...paths: string[]): Promise<void>;
  version(name: string): string | undefined;
}

function test(name: string, body: (example: Case) => Promise<void>): void {
  Deno.test(name, async () => {
    await using folder = await makeFolder("manifests");
    const sink = new MemorySink();
    const logger = new MemoryLogger();
    const options = { decode: fakeDecode, sink: sink.take, nodeName: "node-1" };
    await body({
      folder: folder.path,
      sink,
      logger,
      write: (name, text) => Deno.writeTextFile(`${folder.path}/${name}`, text),
      load: async (...paths) =>
        void await loadManifests({ ...options, paths, files: denoFiles, logger }),
      version: (name) => sink.version("Service", `default/${name}`),
    });
  });
}

async function following(
  { folder, sink, logger }: Case,
  test: () => Promise<void>,
  { path = folder, files = denoFiles }: { readonly path?: string; readonly files?: ManifestFiles } =
    {},
): Promise<void> {
  const stop = new AbortController();
  const done = followManifests({
    paths: [path],
    decode: fakeDecode,
    sink: sink.take,
    nodeName: "node-1",
    files,
    logger,
    clock: realClock,
    signal: stop.signal,
    interval: 20,
  });
  try {
    await eventually("the first state", () => sink.events.length > 0);
    await test();
  } finally {
    stop.abort();
    await done;
  }
}

test("a folder gives its YAML and JSON files, sorted", async (example) => {
  await example.write("b.yml", service("b"));
  await example.write("a.yaml", service("a"));
  await example.write("c.json", '{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1"}}');
  await example.write("notes.txt", "no manifest");
  await example.write(".hidden.yaml", "no manifest");
  await Deno.mkdir(`${example.folder}/deeper.yaml.d`);
  await example.load(example.folder);
  assertEquals(example.sink.events.map(({ type, kind }) => `${type} ${kind}`), [
    "replace Service",
    "replace EndpointSlice",
    "replace Node",
    "replace ServiceCIDR",
  ]);
  assertEquals(example.sink.summary("Service"), ["replace default/a default/b"]);
});

test("of an object that stands in two files the last one counts, with a warning", async (example) => {
  await example.write("a.yaml", service("a", "1"));
  await example.write("b.yaml", service("a", "2"));
  await example.load(`${example.folder}/a.yaml`, `${example.folder}/b.yaml`);
  assertEquals(example.version("a"), "2");
  assertEquals(example.logger.at("warn").length, 1);
});

test("broken and missing files are errors with their names", async (example) => {
  await example.write("a.yaml", service("a"));
  await example.write("b.yaml", "kind: [\n");
  const error = await assertRejects(
    () => example.load(example.folder, `${example.folder}/missing.yaml`),
    ManifestError,
  );
  assert(error.message.includes(`${example.folder}/b.yaml:`), error.message);
  assert(error.message.includes("missing.yaml: cannot be read"), error.message);
  assertEquals(example.sink.events, []);
});

test("changed, new and removed files are followed", async (example) => {
  await example.write("a.yaml", service("a"));
  await following(example, async () => {
    await example.write("a.yaml", service("a", "2"));
    await eventually("a has changed", () => example.version("a") === "2");
    await example.write("b.yaml", service("b"));
    await eventually("b is there", () => example.version("b") === "1");
    await Deno.remove(`${example.folder}/a.yaml`);
    await eventually("a is gone", () => example.version("a") === undefined);
    await example.write(".new", service("b", "2"));
    await Deno.rename(`${example.folder}/.new`, `${example.folder}/b.yaml`);
    await eventually("b was replaced", () => example.version("b") === "2");
  });
});

/** Returns files that change from the third look on, a step a look. */
function changing(steps: readonly (() => Promise<void>)[]): ManifestFiles {
  let looks = 0;
  const list = async (folder: string) => {
    await steps[looks++ - 2]?.();
    return await denoFiles.list(folder);
  };
  return { ...denoFiles, list };
}

const STEPS: Readonly<Record<string, readonly ((example: Case) => Promise<void>)[]>> = {
  "a file that gets another name": [
    ({ folder }) => Deno.rename(`${folder}/a.yaml`, `${folder}/b.yaml`),
  ],
  "a file that an editor moves away and writes anew": [
    ({ folder }) => Deno.rename(`${folder}/a.yaml`, `${folder}/a.yaml~`),
    ({ write }) => write("a.yaml", service("a")),
  ],
  "an object that moves to another file": [
    ({ write }) => write("a.yaml", service("other")),
    ({ write }) => write("b.yaml", service("a")),
  ],
};

for (const [what, steps] of Object.entries(STEPS)) {
  test(`${what} takes no object away, though a look comes in between`, async (example) => {
    await example.write("a.yaml", service("a"));
    const files = changing(steps.map((step) => () => step(example)));
    await following(example, async () => {
      await eventually("the second state", () => example.sink.events.length > 4);
      assertEquals(example.sink.lost, []);
      assertEquals(example.version("a"), "1");
    }, { files });
  });
}

test("a file that changes all the time does not keep out the changes of others", async (example) => {
  await example.write("busy.yaml", service("busy"));
  await example.write("calm.yaml", service("calm"));
  let looks = 0;
  const stat = async (path: string) => {
    const info = await denoFiles.stat(path);
    return path.endsWith("busy.yaml") ? { ...info, fingerprint: `${looks++}` } : info;
  };
  await following(example, async () => {
    await example.write("calm.yaml", service("calm", "22"));
    await eventually("the change", () => example.version("calm") === "22");
  }, { files: { ...denoFiles, stat } });
});

test("a file that is replaced by one of equal size and time is read again", async (example) => {
  const path = `${example.folder}/a.yaml`;
  const time = new Date("2026-01-01T00:00:00Z");
  await example.write("a.yaml", service("a"));
  await Deno.utime(path, time, time);
  await following(example, async () => {
    await eventually("the change", async () => {
      await example.write("a.yaml", service("a", "2"));
      await Deno.utime(path, time, time);
      return example.version("a") === "2";
    }, { interval: 300 });
  });
});

test("a ConfigMap's links are followed when they are swapped", async (example) => {
  const { folder } = example;
  await Deno.mkdir(`${folder}/..one`);
  await Deno.mkdir(`${folder}/..two`);
  await example.write("..one/a.yaml", service("a", "1"));
  await example.write("..two/a.yaml", service("a", "2"));
  await Deno.symlink("..one", `${folder}/..data`);
  await Deno.symlink("..data/a.yaml", `${folder}/a.yaml`);
  await following(example, async () => {
    assertEquals(example.version("a"), "1");
    await Deno.symlink("..two", `${folder}/..data_tmp`);
    await Deno.rename(`${folder}/..data_tmp`, `${folder}/..data`);
    await eventually("the other one counts", () => example.version("a") === "2");
  });
});

test("a file that breaks keeps its last good state, with one warning", async (example) => {
  await example.write("a.yaml", service("a"));
  await example.write("b.yaml", service("b"));
  await following(example, async () => {
    await example.write("a.yaml", "kind: [\n");
    await eventually("a warning", () => example.logger.at("warn").length === 1);
    await example.write("b.yaml", service("b", "2"));
    await eventually("b has changed", () => example.version("b") === "2");
    assertEquals(example.version("a"), "1");
    await example.write("a.yaml", service("a", "3"));
    await eventually("a is back", () => example.version("a") === "3");
    assertEquals(example.logger.at("warn").length, 1);
  });
  assertEquals(example.sink.lost, []);
});

test("a file that is away for a look and comes back broken keeps its last good state", async (example) => {
  await example.write("a.yaml", service("a"));
  const files = changing([
    () => Deno.remove(`${example.folder}/a.yaml`),
    () => example.write("a.yaml", "kind: [\n"),
  ]);
  await following(example, async () => {
    await eventually("a warning", () => example.logger.at("warn").length === 1);
    await example.write("b.yaml", service("b"));
    await eventually("b is there", () => example.version("b") === "1");
    assertEquals(example.version("a"), "1");
  }, { files });
  assertEquals(example.sink.lost, []);
});

test("a named file that goes away keeps its last good state", async (example) => {
  const path = `${example.folder}/a.yaml`;
  await example.write("a.yaml", service("a"));
  let looks = 0;
  const stat = (file: string) => {
    looks++;
    return denoFiles.stat(file);
  };
  await following(example, async () => {
    await Deno.remove(path);
    const before = looks;
    await eventually("some looks", () => looks > before + 10);
    assertEquals(example.logger.at("warn").length, 1);
    assertEquals(example.version("a"), "1");
  }, { path, files: { ...denoFiles, stat } });
});

test("a folder that is removed file by file keeps its last good state", async (example) => {
  const path = `${example.folder}/now`;
  await Deno.mkdir(path);
  for (const name of ["a", "b"]) await example.write(`now/${name}.yaml`, service(name));
  const files = changing([
    () => Deno.remove(`${path}/a.yaml`),
    () => Deno.remove(path, { recursive: true }),
  ]);
  await following(example, async () => {
    await eventually("the warning", () => example.logger.at("warn").length > 0);
    assertEquals([example.version("a"), example.version("b")], ["1", "1"]);
  }, { path, files });
  assertEquals(example.sink.lost, []);
});

test("a folder named with a final slash keeps its last good state", async (example) => {
  const path = `${example.folder}/now/`;
  await Deno.mkdir(path);
  await example.write("now/a.yaml", service("a"));
  await following(example, async () => {
    await Deno.rename(path, `${example.folder}/away`);
    await eventually("the warning", () => example.logger.at("warn").length > 0);
    assertEquals(example.version("a"), "1");
  }, { path });
});

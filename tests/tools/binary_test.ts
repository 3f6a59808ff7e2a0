import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { NOTICES } from "../../lib/cli/licenses/notices.ts";
import { adviceFor, makeBinary } from "../../tools/compile/binary.ts";
import { makeBundle, modulesOf, packagesOf } from "../../tools/compile/bundle.ts";
import { execute, run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const COMMIT = { hash: "0123456789ab", time: 1_795_000_000, isTagged: false };

/** A program that stands in for Deno's runtime: `deno compile` wants an ELF file for the target. */
async function makeRuntime(folder: string, machine: number): Promise<string> {
  const bytes = await Deno.readFile("/bin/true");
  bytes[18] = machine;
  await Deno.writeFile(`${folder}/denort`, bytes, { mode: 0o755 });
  return `${folder}/denort`;
}

Deno.test("the task makes a binary for each runtime that DENORT_BIN names", async () => {
  await using dist = await makeFolder("binary");
  const compile = (machine: number, ...flags: string[]) =>
    makeRuntime(dist.path, machine).then((runtime) =>
      execute([
        Deno.execPath(),
        "run",
        "-qA",
        `${ROOT}tools/compile.ts`,
        `--dist=${dist.path}`,
        ...flags,
      ], { env: { DENORT_BIN: runtime } })
    );
  const arm = await compile(183);
  assertEquals([arm.code, arm.stderr], [0, ""]);
  assertMatch(arm.stdout, /^bundle: \d+ KiB, \d+ modules, packages @bufbuild\/protobuf@[\d.]+, /);
  assertStringIncludes(arm.stdout, `${dist.path}/signpost-aarch64-unknown-linux-gnu: `);

  const hardened = await compile(62, "--jitless");
  assertStringIncludes(hardened.stdout, `${dist.path}/signpost-jitless-x86_64-unknown-linux-gnu: `);
  const binary = await Deno.readFile(`${dist.path}/signpost-jitless-x86_64-unknown-linux-gnu`);
  const text = new TextDecoder("latin1").decode(binary);
  // A command that is loaded when it is asked for.
  assertEquals(text.includes("// lib/cli/run.ts"), true);
  assertEquals(text.includes('"prompt":false'), true);
  assertEquals(text.includes('"--jitless"'), true);

  const other = await compile(62, "--target=aarch64-unknown-linux-gnu");
  assertEquals(other.code, 1);
  assertMatch(other.stderr, /^DENORT_BIN=\S+ is no denort for aarch64-unknown-linux-gnu\n$/);
});

Deno.test("a bundle has each module once", async () => {
  await using folder = await makeFolder("binary");
  await Deno.mkdir(`${folder.path}/deep/er`, { recursive: true });
  await Deno.mkdir(`${folder.path}/flat`);
  const bundle = await makeBundle(`${folder.path}/flat`, COMMIT);
  assertEquals(await makeBundle(`${folder.path}/deep/er`, COMMIT), bundle);

  const modules = modulesOf(bundle);
  assertEquals(modules.filter((path) => /^tests|^tools|fast-check|std\/assert/.test(path)), []);
  for (const path of ["main.ts", "lib/cli/help.ts", "lib/cli/diff.ts"]) {
    assertEquals(modules.includes(path), true, path);
  }
  assertEquals(modules.filter((path) => path.startsWith("..")), []);
  assertStringIncludes(bundle, "<noscript>", "the status page");
  // The first notice is of Deno itself.
  const notices = NOTICES.slice(1).map(({ name, version }) => `${name}@${version}`);
  assertEquals(packagesOf(bundle), notices, "tools/notices/read.ts has the list");
  // What would make code at run time.
  assertEquals(/\bnew Function\(|\bWebAssembly\./.test(bundle), false);
  // Commands are in files of their own; nothing is loaded beside them.
  const loaded = [...bundle.matchAll(/\b(?:import\(|from |import )"\.\/([^"]+)"/g)].map((
    [, name],
  ) => name);
  const files = [...Deno.readDirSync(`${folder.path}/flat/bundle`)].map(({ name }) => name);
  assertEquals([...new Set(["main.js", ...loaded])].sort(), files.sort());
  // What it imports of Node's is loaded at each start, whichever command is asked for.
  const imported = new Set(
    [...bundle.matchAll(/^import .* from "(node:.+)";$/gm)].map(([, name]) => name),
  );
  assertEquals([...imported], ["node:os"]);

  const file = `${folder.path}/flat/bundle/main.js`;
  const version = [Deno.execPath(), "run", "-qA", "--no-config", file, "--version"];
  assertEquals(await run(version), "signpost 0.1.0 (commit 0123456789ab)\n");
});

Deno.test("the same bundle and runtime give the same binary", async () => {
  await using folder = await makeFolder("binary");
  const env = { DENORT_BIN: await makeRuntime(folder.path, 62) };
  const make = async (name: string) => {
    await Deno.mkdir(`${folder.path}/${name}/bundle`, { recursive: true });
    const bundle = `${folder.path}/${name}/bundle/main.js`;
    await Deno.writeTextFile(bundle, "console.log(1);\n");
    await Deno.utime(bundle, COMMIT.time, COMMIT.time);
    const problem = await makeBinary(`${folder.path}/${name}`, {
      target: "x86_64-unknown-linux-gnu",
      jitless: false,
      permissions: { read: true },
      unstable: ["net"],
      output: `${folder.path}/${name}/out`,
      env,
    });
    assertEquals(problem, undefined);
    return await Deno.readFile(`${folder.path}/${name}/out`);
  };
  assertEquals(await make("one") + "", await make("two") + "");
});

Deno.test("where no runtime can be had, one line says what to do", async () => {
  await using folder = await makeFolder("binary");
  await Deno.mkdir(`${folder.path}/bundle`);
  await Deno.writeTextFile(`${folder.path}/bundle/main.js`, "");
  const problem = await makeBinary(folder.path, {
    target: "aarch64-unknown-linux-gnu",
    jitless: true,
    permissions: {},
    unstable: [],
    output: `${folder.path}/out`,
    // An empty cache, and a way to the network that leads to no server.
    env: {
      DENO_DIR: `${folder.path}/cache`,
      HTTPS_PROXY: "http://127.0.0.1:1",
      https_proxy: "http://127.0.0.1:1",
      NO_PROXY: "",
      no_proxy: "",
    },
  });
  assertMatch(
    problem ?? "",
    /^no runtime for aarch64-unknown-linux-gnu: https:\/\/\S+\/denort-aarch64-unknown-linux-gnu\.zip cannot be downloaded \(.+\); download it elsewhere to \S+\/denort-aarch64-unknown-linux-gnu\.zip, or unpack it and name it in DENORT_BIN$/,
  );
});

Deno.test("another failure of deno compile is quoted", () => {
  const stderr = "Compile file:///x\nerror: Permission denied (os error 13)\n";
  assertEquals(
    adviceFor(stderr, "x86_64-unknown-linux-gnu"),
    "deno compile for x86_64-unknown-linux-gnu failed: Permission denied (os error 13)",
  );
});

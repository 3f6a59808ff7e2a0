/**
 * The binaries for this machine that are in `dist/`: what is essential, on each of them.
 *
 * `SIGNPOST_BIN=dist/… deno task test tests/e2e` tries everything.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { VERSION } from "../../lib/model/version.ts";
import { binaryName, TARGETS } from "../../tools/compile/arguments.ts";
import { execute, run } from "../support/command.ts";
import { signpostCommand } from "../support/signpost.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Starts, permissions, packets of each kind of Service, the API server, restarts. */
const ESSENTIAL = ["start", "permissions", "service_types", "api", "restart"];

interface Binary {
  readonly jitless: boolean;
  readonly path: string;
}

const BINARIES: readonly Binary[] = TARGETS.filter((target) => target === Deno.build.target)
  .flatMap((target) =>
    [false, true].map((jitless) => ({ jitless, name: binaryName(target, jitless) }))
  )
  .map(({ jitless, name }) => ({ jitless, path: `${ROOT}dist/${name}` }))
  .filter(({ path }) => isThere(path));

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

if (BINARIES.length === 0) {
  Deno.test(`dist/ has no binary for ${Deno.build.target}: none is tried`, () => {});
}

for (const { jitless, path } of BINARIES) {
  const name = path.slice(ROOT.length);

  Deno.test(`${name} needs no file beside it`, async () => {
    const folder = await Deno.makeTempDir({ prefix: "signpost-binary-" });
    try {
      await Deno.copyFile(path, `${folder}/signpost`);
      const alone = ["env", "-i", `HOME=${folder}`, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"];
      const say = (...words: string[]) =>
        run([...alone, `${folder}/signpost`, ...words], { cwd: folder });
      const version = await say("version");
      assertStringIncludes(version, `signpost ${VERSION}\n`);
      assertStringIncludes(version, "\nengine: V8 ");
      assertEquals(version.includes(", jitless\n"), jitless);
      assertStringIncludes(version, `\ntarget: ${Deno.build.target}\n`);
      assertStringIncludes(await say("licenses"), "Permission is hereby granted");
      assertStringIncludes(await say("--help"), "Usage:");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });

  for (const mode of ["nftables", "iptables"]) {
    Deno.test(`${name} prints the same rules as the source, ${mode}`, async () => {
      const words = ["--once", `--proxy-mode=${mode}`, "--hostname-override=node-1"];
      const once = (command: readonly string[]) =>
        run([...command, ...words, `--manifests=${ROOT}examples`]);
      assertEquals(await once([path]), await once(signpostCommand()));
    });
  }

  for (const file of ESSENTIAL) {
    Deno.test(`${name} passes tests/e2e/${file}_test.ts`, async () => {
      const words = [Deno.execPath(), "test", "-A", `tests/e2e/${file}_test.ts`];
      const { code, stdout, stderr } = await execute(words, {
        cwd: ROOT,
        env: { SIGNPOST_BIN: path, NO_COLOR: "1" },
      });
      assertEquals(code, 0, `${stdout}\n${stderr}`);
    });
  }
}

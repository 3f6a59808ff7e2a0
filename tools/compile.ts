/**
 * `deno task compile`: one binary for each target in `dist/`, as far as the runtimes are at hand.
 *
 * The runtime is what `DENORT_BIN` names, or what Deno has in its cache. It compiles a copy of
 * the sources in which `lib/model/commit.ts` has the commit; the checkout stays as it is.
 *
 * @module
 */
import { execute } from "../tests/support/command.ts";
import {
  compileArguments,
  type Permissions,
  type Target,
  targetOf,
  TARGETS,
} from "./compile/arguments.ts";
import { complain, say } from "./terminal.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const SOURCES = ["deno.json", "deno.lock", "main.ts", "lib"];

/** Compiles what can be compiled. @returns the exit code: 1 where a runtime is missing */
async function main(): Promise<number> {
  const { ready, missing } = await findRuntimes();
  for (const line of missing) complain(line);
  if (ready.length === 0) return 1;
  const source = await Deno.makeTempDir({ prefix: "signpost-compile-" });
  try {
    await execute(["cp", "-r", ...SOURCES.map((name) => `${ROOT}${name}`), source]);
    const commit = await commitOf();
    await Deno.writeTextFile(
      `${source}/lib/cli/commit.ts`,
      `/** Written by tools/compile.ts. */\nexport const COMMIT: string = ${
        JSON.stringify(commit)
      };\n`,
    );
    for (const target of ready) {
      if (!await compile(target, source)) return 1;
    }
    say(`compiled from commit ${commit || "(unknown: this is no git checkout)"}`);
    return missing.length === 0 ? 0 : 1;
  } finally {
    await Deno.remove(source, { recursive: true });
  }
}

/** @returns whether it could be compiled */
async function compile(target: Target, source: string): Promise<boolean> {
  const { permissions } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`)) as {
    readonly permissions: { readonly default: Permissions };
  };
  const name = `dist/signpost-${target}`;
  const output = `${source}/${name}`;
  const args = compileArguments({ target, permissions: permissions.default, output });
  const { code, stderr } = await execute([Deno.execPath(), ...args], { cwd: source });
  if (code !== 0) {
    complain(`deno compile for ${target} failed: ${stderr.trim()}`);
    return false;
  }
  // A half-written binary never gets there.
  await Deno.mkdir(`${ROOT}dist`, { recursive: true });
  await Deno.copyFile(output, `${ROOT}${name}.new`);
  await Deno.rename(`${ROOT}${name}.new`, `${ROOT}${name}`);
  const { size } = await Deno.stat(output);
  say(`${name}: ${Math.round(size / 2 ** 20)} MiB`);
  return true;
}

/** The targets whose runtime is there, and a line for each one whose runtime is not. */
async function findRuntimes(): Promise<{ ready: readonly Target[]; missing: readonly string[] }> {
  const named = Deno.env.get("DENORT_BIN");
  if (named) {
    const target = targetOf(await Deno.readFile(named).catch(() => new Uint8Array()));
    return target
      ? { ready: [target], missing: [] }
      : { ready: [], missing: [`DENORT_BIN=${named} is no denort for ${TARGETS.join(" or ")}`] };
  }
  const paths = new Map(TARGETS.map((target) => [target, cachedRuntime(target)]));
  const found = await Promise.all([...paths].map(async ([target, path]) => ({
    target,
    isThere: await Deno.stat(path).then(() => true, () => false),
  })));
  const missing = found.filter(({ isThere }) => !isThere).map(({ target }) =>
    `no runtime for ${target}: download https://dl.deno.land/release/v${Deno.version.deno}/` +
    `denort-${target}.zip to ${paths.get(target)}, or unpack it and name it in DENORT_BIN`
  );
  return { ready: found.filter(({ isThere }) => isThere).map(({ target }) => target), missing };
}

/** Where `deno compile` keeps the runtime of its own version. */
function cachedRuntime(target: Target): string {
  const cache = Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`;
  const folder = Deno.env.get("DENO_DIR") ?? `${cache}/deno`;
  return `${folder}/dl/release/v${Deno.version.deno}/denort-${target}.zip`;
}

/** The abbreviated hash, with `-dirty` where files differ from it; `""` without git. */
async function commitOf(): Promise<string> {
  const words = [
    "git",
    "-C",
    ROOT,
    "describe",
    "--always",
    "--dirty",
    "--abbrev=12",
    "--exclude=*",
  ];
  const result = await execute(words).catch(() => undefined);
  return result?.code === 0 ? result.stdout.trim() : "";
}

if (import.meta.main) Deno.exit(await main());

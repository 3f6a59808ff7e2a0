/**
 * From the bundle to a binary: `deno compile` with the runtime of a target.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import { compileArguments, type CompileOptions, type Target, targetOf } from "./arguments.ts";

/** Returns the target that a program file is for; `undefined` if there is no such file, or it is for another machine. */
export async function readTarget(path: string): Promise<Target | undefined> {
  return targetOf(await Deno.readFile(path).catch(() => new Uint8Array()));
}

/**
 * Compiles the bundle that is in a folder. The runtime is what `DENORT_BIN` names, else what Deno
 * has in its cache, else Deno downloads it.
 *
 * @param options.output the path of the binary; a half-written binary never gets there
 * @param options.env variables for `deno`, beside this process's own
 * @returns one line that says what is in the way and what to do; `undefined` if it was compiled
 */
export async function makeBinary(
  folder: string,
  options: CompileOptions & {
    readonly unstable: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<string | undefined> {
  const { target, unstable, output, env } = options;
  // Of deno.json, the binary needs nothing else: its import map would be in it, too.
  await Deno.writeTextFile(`${folder}/compile.json`, JSON.stringify({ unstable }));
  const made = `${folder}/${target}`;
  const args = compileArguments({ ...options, output: made });
  const { code, stderr } = await execute([Deno.execPath(), ...args], {
    cwd: folder,
    env: { ...env, NO_COLOR: "1" },
  });
  if (code !== 0) return adviceFor(stderr, target);
  await Deno.mkdir(new URL(".", `file://${output}`).pathname, { recursive: true });
  await Deno.copyFile(made, `${output}.new`);
  await Deno.rename(`${output}.new`, output);
  return undefined;
}

/** Returns one line about a failure of `deno compile`. @param stderr its output */
export function adviceFor(stderr: string, target: Target): string {
  const url = /https?:\/\/\S+\/denort-[\w-]+\.zip/.exec(stderr)?.[0];
  const causes = [...stderr.matchAll(/^\s*(?:\d+: |error: )(.+)$/gm)].map(([, text]) => text);
  const cause = causes.at(-1) ?? stderr.trim().split("\n").at(-1) ?? "";
  if (url === undefined) return `deno compile for ${target} failed: ${causes.join(": ") || cause}`;
  return `no runtime for ${target}: ${url} cannot be downloaded (${cause}); ` +
    `download it elsewhere to ${cachedRuntime(target)}, or unpack it and name it in DENORT_BIN`;
}

/** Returns the path at which `deno compile` keeps the runtime of its own version. */
function cachedRuntime(target: Target): string {
  const cache = Deno.env.get("XDG_CACHE_HOME") ?? `${Deno.env.get("HOME")}/.cache`;
  const folder = Deno.env.get("DENO_DIR") ?? `${cache}/deno`;
  return `${folder}/dl/release/v${Deno.version.deno}/denort-${target}.zip`;
}

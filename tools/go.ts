/**
 * Programs built from the Go module proxy: no package of Debian's has them.
 *
 * @module
 */
import { locateProgram } from "./programs.ts";
import { cacheFolder } from "./unpacked.ts";
import { run } from "../tests/support/command.ts";

/** Makes packages (`deno task package`). */
export const NFPM = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2";

/** How a program is built. */
export interface BuildOptions {
  /** Parts of it are C: a C compiler builds them, without shared libraries. */
  readonly hasC?: boolean;
  /** Modules in a newer version than the program's own: the proxy refuses some old ones. */
  readonly newer?: readonly string[];
}

/**
 * Returns the path of a program. A build takes up to two minutes, and is kept in `~/.cache/signpost`.
 *
 * @param source the package with its version, such as `helm.sh/helm/v3/cmd/helm@v3.22.0`
 * @returns `undefined` if it cannot be built; a line says why
 */
export async function goProgram(
  source: string,
  { hasC = false, newer = [] }: BuildOptions = {},
): Promise<string | undefined> {
  const [name = "", version] = source.replace(/^.*\//, "").split("@");
  const folder = `${cacheFolder()}/${name}-${version}`;
  const path = `${folder}/${name}`;
  if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  const go = locateProgram("go") ?? "/usr/local/go/bin/go";
  const flags = `-ldflags=-s -w${hasC ? " -extldflags=-static" : ""}`;
  const commands = [
    ["mod", "init", "program"],
    ["get", source, ...newer],
    ["install", flags, source.replace(/@.*$/, "")],
  ];
  const module = await Deno.makeTempDir({ prefix: "signpost-go-" });
  const env = { GOBIN: folder, GOFLAGS: "", GOTOOLCHAIN: "auto", CGO_ENABLED: hasC ? "1" : "0" };
  try {
    for (const command of commands) await run([go, ...command], { env, cwd: module });
    return path;
  } catch (error) {
    const reason = error instanceof Error ? error.message.trim().split("\n").at(-1) : error;
    // deno-lint-ignore no-console
    console.log(`${name} cannot be built here, it needs Go 1.21 or newer: ${reason}`);
  } finally {
    await Deno.remove(module, { recursive: true });
  }
  return undefined;
}

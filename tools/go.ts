/**
 * Programs built from the Go module proxy: no package of Debian's has them.
 *
 * @module
 */
import { locateProgram } from "./programs.ts";
import { cacheFolder } from "./unpacked.ts";
import { execute } from "../tests/support/command.ts";

/** Makes packages (`deno task package`). */
export const NFPM = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2";

/**
 * Returns the path of a program. A build takes up to two minutes, and is kept in `~/.cache/signpost`.
 *
 * @param source the package with its version, such as `helm.sh/helm/v3/cmd/helm@v3.22.0`
 * @returns `undefined` if it cannot be built; a line says why
 */
export async function goProgram(source: string): Promise<string | undefined> {
  const [name = "", version] = source.replace(/^.*\//, "").split("@");
  const folder = `${cacheFolder()}/${name}-${version}`;
  const path = `${folder}/${name}`;
  if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  const go = locateProgram("go") ?? "/usr/local/go/bin/go";
  const built = await execute([go, "install", "-ldflags=-s -w", source], {
    env: { GOBIN: folder, GOFLAGS: "", GOTOOLCHAIN: "auto", CGO_ENABLED: "0" },
    cwd: "/",
  }).catch((error: Error) => ({ code: 127, stdout: "", stderr: error.message }));
  if (built.code === 0) return path;
  const reason = built.stderr.trim().split("\n").at(-1) ?? "";
  // deno-lint-ignore no-console
  console.log(`${name} cannot be built here, it needs Go 1.21 or newer: ${reason}`);
  return undefined;
}

/**
 * Helm, built from the Go module proxy: no package of Debian's has it.
 *
 * @module
 */
import { cacheFolder } from "../../tools/unpacked.ts";
import { locateProgram } from "../../tools/programs.ts";
import { type CommandResult, execute } from "../support/command.ts";

const VERSION = "v3.22.0";
/** A helm built without its release's settings believes in Kubernetes 1.20. */
const KUBERNETES = ["--kube-version", "1.37.0"];
/** The chart. */
export const CHART = new URL("../../charts/signpost", import.meta.url).pathname;

/**
 * The path of helm. It takes two minutes to build, and is kept in `~/.cache/signpost`.
 *
 * @returns `undefined`, and a line that says why, where it cannot be built
 */
export async function findHelm(): Promise<string | undefined> {
  const folder = `${cacheFolder()}/helm-${VERSION}`;
  const path = `${folder}/helm`;
  if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  const go = locateProgram("go") ?? "/usr/local/go/bin/go";
  const source = `helm.sh/helm/v3/cmd/helm@${VERSION}`;
  const built = await execute([go, "install", "-ldflags=-s -w", source], {
    env: { GOBIN: folder, GOFLAGS: "", GOTOOLCHAIN: "local", CGO_ENABLED: "0" },
    cwd: "/",
  }).catch((error: Error) => ({ code: 127, stdout: "", stderr: error.message }));
  if (built.code === 0) return path;
  const reason = built.stderr.trim().split("\n").at(-1) ?? "";
  // deno-lint-ignore no-console
  console.log(`helm cannot be built here, its tests of the chart are left out: ${reason}`);
  return undefined;
}

/** What `helm template` makes of the chart. */
export async function template(helm: string, args: readonly string[]): Promise<CommandResult> {
  const command = [helm, "template", "signpost", CHART, "-n", "kube-system", ...KUBERNETES];
  return await execute([...command, ...args]);
}

/** What `helm lint --strict` says of the chart. */
export async function lint(helm: string, args: readonly string[]): Promise<CommandResult> {
  return await execute([helm, "lint", "--strict", CHART, ...KUBERNETES, ...args]);
}

/**
 * The program that is measured: what `deno task compile` puts into the binary, run by `deno`, or
 * whatever `SIGNPOST_BIN` names.
 *
 * @module
 */
import { cpus, release } from "node:os";
import { messageOf } from "../lib/model/values/errors.ts";
import { execute, run } from "../tests/support/command.ts";
import { ENTRY_POINT, V8_FLAGS } from "../tools/compile/arguments.ts";
import { makeBundle } from "../tools/compile/bundle.ts";
import { readCommit } from "../tools/compile/commit.ts";

const ROOT = new URL("..", import.meta.url).pathname;

/**
 * Makes the program, and has everything that starts signpost in this process start it.
 *
 * @param folder an existing folder, for the bundle
 * @returns what it is, in words
 */
export async function makeProgram(folder: string): Promise<string> {
  const named = Deno.env.get("SIGNPOST_BIN")?.trim();
  if (named) return named;
  // Without esbuild, which Deno fetches from npm at its first use, the sources are measured.
  const missing = await makeBundle(folder, await readCommit())
    .then(() => undefined, messageOf);
  const program = missing === undefined ? `${folder}/${ENTRY_POINT}` : `${ROOT}main.ts`;
  const flags = ["-q", "-P", `--v8-flags=${V8_FLAGS}`, "--config", `${ROOT}deno.json`];
  const command = [Deno.execPath(), "run", ...flags, program];
  Deno.env.set("SIGNPOST_BIN", command.join(" "));
  // What Deno makes of a new file, it makes once.
  await execute([...command, "--version"]);
  return missing === undefined
    ? "the bundle that the binary is made of"
    : `the sources (${missing})`;
}

/** The commit, the day, and the load average of the minute before. */
export async function describeSitting(): Promise<string> {
  const commit = (await run(["git", "rev-parse", "--short", "HEAD"])).trim();
  const day = new Date().toISOString().slice(0, 10);
  const [load = 0] = Deno.loadavg();
  return `commit ${commit} on ${day}, load average ${load.toFixed(1)} before`;
}

/** The machine of a measurement. */
export interface Machine {
  readonly kernel: string;
  readonly cores: number;
  readonly cpu: string;
  readonly nft: string;
  readonly deno: string;
}

/** Describes this machine. */
export async function describeMachine(): Promise<Machine> {
  return {
    kernel: release(),
    cores: cpus().length,
    cpu: cpus()[0]?.model ?? "",
    nft: (await run(["nft", "--version"])).trim(),
    deno: Deno.version.deno,
  };
}

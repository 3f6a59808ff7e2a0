/**
 * signpost and the machine's own program, each as one file: a machine by emulation reads files slowly.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import { V8_FLAGS } from "../compile/arguments.ts";
import { NotAvailable } from "./packages.ts";

/** The commands. */
export interface Bundles {
  /** Starts signpost with the permissions of `deno.json`. */
  readonly signpost: readonly string[];
  /** Starts the machine's own program. */
  readonly guest: readonly string[];
}

/**
 * Writes the files into a folder.
 *
 * @throws {NotAvailable} where Deno's bundler cannot be downloaded
 */
export async function makeBundles(root: string, folder: string): Promise<Bundles> {
  const bundle = async (source: string, name: string) => {
    const path = `${folder}/${name}.js`;
    const argv = [Deno.execPath(), "bundle", "-q", "-o", path, `${root}${source}`];
    const { code, stderr } = await execute(argv, { cwd: root });
    if (code === 0) return path;
    // Deno downloads its bundler when it is first needed.
    const isDownload = /esbuild|registry|download|fetch/i.test(stderr);
    const message = `deno bundle ${source} failed: ${stderr.trim()}`;
    throw isDownload ? new NotAvailable(message) : new Error(message);
  };
  const program = await bundle("main.ts", "signpost");
  const guest = await bundle("tools/kernels/guest.ts", "guest");
  const config = `${folder}/deno.json`;
  await Deno.copyFile(`${root}deno.json`, config);
  const common = [Deno.execPath(), "run", "-q"];
  return {
    signpost: [...common, "-P", "--config", config, `--v8-flags=${V8_FLAGS}`, program],
    guest: [...common, "-A", guest],
  };
}

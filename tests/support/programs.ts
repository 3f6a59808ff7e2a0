/** A PATH of a test's own: nodes on which programs are missing, or do something else. */

/** A folder of programs; it goes when disposed. */
export interface Programs extends AsyncDisposable {
  /** Has a process find these programs and no others. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Makes a folder with links to programs of this machine, and with scripts.
 *
 * @param names of programs that are to be there
 * @param scripts by name, shell scripts in the place of programs
 */
export async function linkPrograms(
  names: readonly string[],
  scripts: Readonly<Record<string, string>> = {},
): Promise<Programs> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-programs-" });
  for (const name of names) await Deno.symlink(await programPath(name), `${folder}/${name}`);
  for (const [name, script] of Object.entries(scripts)) {
    await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\n${script}`, { mode: 0o755 });
  }
  return {
    env: { PATH: folder },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

/** Returns the path of a program on this machine. */
export async function programPath(name: string): Promise<string> {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":")) {
    try {
      await Deno.stat(`${folder}/${name}`);
      return `${folder}/${name}`;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  throw new Error(`${name} is not in the PATH`);
}

/**
 * Files in a folder and in a tar archive. The same files and time give the same bytes.
 *
 * @module
 */
import { run } from "../../tests/support/command.ts";

/** A file, a symbolic link or an empty folder. */
export interface PackageFile {
  /** Below the root, without a slash in front; a folder's has one at the end. */
  readonly path: string;
  /** The content; for a link, the path that it leads to. */
  readonly data: string | Uint8Array;
  /** 0644 by default. */
  readonly mode?: number | "link";
}

/**
 * Keeps the files in a folder for as long as `use` takes.
 *
 * @param time of all files and folders, in seconds since 1970
 */
export async function inTree(
  files: readonly PackageFile[],
  time: number,
  use: (root: string) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "signpost-package-" });
  try {
    await Deno.chmod(root, 0o755);
    const folders = new Set<string>([root]);
    for (const { path, data, mode = 0o644 } of files) {
      const steps = path.split("/").slice(0, -1);
      for (const [index] of steps.entries()) {
        const folder = `${root}/${steps.slice(0, index + 1).join("/")}`;
        if (folders.has(folder)) continue;
        await Deno.mkdir(folder);
        // Whatever the umask is.
        await Deno.chmod(folder, 0o755);
        folders.add(folder);
      }
      if (path.endsWith("/")) continue;
      const file = `${root}/${path}`;
      if (mode === "link") {
        await Deno.symlink(String(data), file);
        continue;
      }
      await Deno.writeFile(
        file,
        typeof data === "string" ? new TextEncoder().encode(data) : data,
      );
      await Deno.chmod(file, mode);
      await Deno.utime(file, time, time);
    }
    for (const folder of folders) await Deno.utime(folder, time, time);
    await use(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** Writes entries of a folder into an archive, compressed if its name ends with `.gz`. */
export async function makeTar(
  folder: string,
  { names, time, output }: {
    readonly names: readonly string[];
    readonly time: number;
    readonly output: string;
  },
): Promise<void> {
  await run([
    ...["tar", "-C", folder, "--sort=name", "--format=ustar", `--mtime=@${time}`],
    ...["--owner=0", "--group=0", "--numeric-owner"],
    ...output.endsWith(".gz") ? ["-I", "gzip -9n"] : [],
    ...["-cf", output, "--", ...names],
  ]);
}

/** The files of the checkout. */

const ROOT = new URL("../../", import.meta.url);

/** Reads a file. @param path from the root */
export function read(path: string): Promise<string> {
  return Deno.readTextFile(new URL(path, ROOT));
}

/** Returns the paths of the files below a folder, from the root. @param folder ends with a slash */
export function filesBelow(folder: string): string[] {
  return [...Deno.readDirSync(new URL(folder, ROOT))].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesBelow(`${folder}${name}/`) : [folder + name]
  );
}

/** Returns true if there is a file or a folder. @param path from the root */
export function exists(path: string): Promise<boolean> {
  return Deno.stat(new URL(path, ROOT)).then(() => true, () => false);
}

/** Folders of a test's own. */

/** A folder that goes when disposed. */
export interface TestFolder extends AsyncDisposable {
  readonly path: string;
}

/** Makes a folder. @param name a part of its name */
export async function makeFolder(name: string): Promise<TestFolder> {
  const path = await Deno.makeTempDir({ prefix: `signpost-${name}-` });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

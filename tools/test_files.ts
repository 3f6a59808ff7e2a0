/**
 * Lists the test files, and tells unit tests from those that need the system.
 *
 * @module
 */
import { dirname, join } from "node:path/posix";

/** The test files by their needs, as paths from the root of the project. */
export interface TestFiles {
  /** Start no program, load no library, and need no root. */
  readonly unit: readonly string[];
  /** All other files. Most of them make network namespaces. */
  readonly system: readonly string[];
}

/** Starts a program, loads a library, or reads `/proc`, for which Deno wants all permissions. */
const NEEDS_SYSTEM = /\bDeno\.(?:Command|dlopen)\b|\b(?:Deno\.\w+|existsSync)\(["'`]\/proc\//;

/** An import or re-export that loads a file of the project; types alone load nothing. */
const IMPORT =
  /^(?:import|export)\s(?!type\b)(?:[^"';]*?\sfrom\s)?\s*"(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/gm;

/**
 * Sorts the test files by what they and all that they import do.
 *
 * @param root the folder of the project, with a slash at its end
 */
export async function findTestFiles(root: string): Promise<TestFiles> {
  const sources = new Map<string, string>();
  for (const folder of ["lib", "tests", "tools", "bench"]) await readSources(root, folder, sources);
  const needing = importersOf(sources, (text) => NEEDS_SYSTEM.test(text));
  const tests = [...sources.keys()].filter((path) => path.endsWith("_test.ts")).sort();
  return {
    unit: tests.filter((path) => !needing.has(path)),
    system: tests.filter((path) => needing.has(path)),
  };
}

async function readSources(root: string, folder: string, into: Map<string, string>): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(root + folder)) {
    const path = join(folder, name);
    if (isDirectory) await readSources(root, path, into);
    else if (path.endsWith(".ts")) into.set(path, await Deno.readTextFile(root + path));
  }
}

/** Returns the sources that match, and all that import them directly or through others. */
function importersOf(
  sources: ReadonlyMap<string, string>,
  matches: (text: string) => boolean,
): ReadonlySet<string> {
  const importers = new Map<string, string[]>();
  for (const [path, text] of sources) {
    for (const [, static_, dynamic] of text.matchAll(IMPORT)) {
      const imported = join(dirname(path), static_ ?? dynamic ?? "");
      importers.set(imported, [...importers.get(imported) ?? [], path]);
    }
  }
  const found = new Set<string>();
  const visit = (path: string): void => {
    if (found.has(path)) return;
    found.add(path);
    importers.get(path)?.forEach(visit);
  };
  for (const [path, text] of sources) if (matches(text)) visit(path);
  return found;
}

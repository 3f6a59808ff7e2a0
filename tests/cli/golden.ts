/** Golden texts: what commands print for people, kept in `tests/testdata/cli/`. */
import { assertEquals } from "@std/assert";

const FOLDER = new URL("../testdata/cli/", import.meta.url);

/** Asserts that a text is that of a file; with `UPDATE_GOLDEN=1`, writes the file again. */
export async function assertGolden(file: string, text: string): Promise<void> {
  const path = new URL(file, FOLDER);
  if (Deno.env.get("UPDATE_GOLDEN") === "1") await Deno.writeTextFile(path, text);
  const expected = await Deno.readTextFile(path).catch(() => "");
  assertEquals(text, expected, `${file} (UPDATE_GOLDEN=1 writes it again)`);
}

/**
 * `deno task man`: writes the manual page docs/signpost.1 from the tables of the parser.
 *
 * @module
 */
import { manPage } from "./man_page.ts";

if (import.meta.main) {
  const path = new URL("../docs/signpost.1", import.meta.url);
  await Deno.writeTextFile(path, manPage());
}

/**
 * `deno task notices`: writes `lib/cli/licenses/notices.ts`, the notices that `signpost licenses` prints.
 *
 * @module
 */
import { run } from "../tests/support/command.ts";
import { noticesModule, readNotices } from "./notices/read.ts";

if (import.meta.main) {
  const file = new URL("../lib/cli/licenses/notices.ts", import.meta.url);
  await Deno.writeTextFile(file, noticesModule(await readNotices()));
  await run([Deno.execPath(), "fmt", "-q", file.pathname]);
}

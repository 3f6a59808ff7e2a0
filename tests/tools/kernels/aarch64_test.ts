import { assertEquals, assertMatch } from "@std/assert";
import { execute } from "../../support/command.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;
const QEMU = "/usr/bin/qemu-aarch64-static";

Deno.test("on aarch64 --once prints the same bytes, where qemu's user mode is at hand", async () => {
  if (!await Deno.stat(QEMU).then(() => true, () => false)) {
    // deno-lint-ignore no-console
    console.log(`There is no ${QEMU} (Debian: qemu-user-static): --once on aarch64 is left out.`);
    return;
  }
  const { code, stdout, stderr } = await execute(
    [Deno.execPath(), "run", "-qA", "tools/kernels.ts", "aarch64"],
    { cwd: ROOT },
  );
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  // Deno for aarch64 and a libc come from the network.
  assertMatch(stdout, /^left out: aarch64: |\n2 passed, 0 failed\n$/m);
});

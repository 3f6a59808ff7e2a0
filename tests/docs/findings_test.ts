import { assertEquals } from "@std/assert";
import { findingsPage } from "../../tools/findings.ts";

Deno.test("docs/findings.md is what `deno task findings` writes", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/findings.md", import.meta.url));
  assertEquals(page, findingsPage());
});

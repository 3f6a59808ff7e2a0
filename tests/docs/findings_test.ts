import { assertEquals } from "@std/assert";
import { findingsPage } from "../../tools/findings.ts";
import { read } from "./checkout.ts";

Deno.test("docs/findings.md is what `deno task findings` writes", async () => {
  assertEquals(await read("docs/findings.md"), findingsPage());
});

import { assertEquals, assertStringIncludes } from "@std/assert";
import { manPage } from "../../tools/man_page.ts";
import { COMMANDS, FLAGS } from "../../lib/config/commands.ts";
import { wordsOf } from "../support/table.ts";

Deno.test("the manual page in docs/ is that of the parser", async () => {
  const written = await Deno.readTextFile(new URL("../../docs/signpost.1", import.meta.url));
  assertEquals(written === manPage(), true, "docs/signpost.1 is old: run deno task man");
});

Deno.test("the manual page has every command and every flag that can be used", () => {
  const page = manPage();
  for (const name of COMMANDS) assertStringIncludes(page, `.SS signpost ${name}\n`);
  for (const { name } of FLAGS) {
    const isThere = page.includes(`\\fB\\-\\-${name.replaceAll("-", "\\-")}\\fR`);
    assertEquals(isThere, true, name);
  }
});

Deno.test("no line of the manual page is taken for a request that it is not", () => {
  const requests = manPage().split("\n").filter((line) => /^[.']/.test(line))
    .map((line) => line.split(" ")[0]);
  const known = new Set(wordsOf('.TH .SH .SS .PP .TP .br .nf .fi .RS .RE .BR .\\"'));
  assertEquals(requests.filter((each) => !known.has(each ?? "")), []);
});

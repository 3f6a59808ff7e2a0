import { assert, assertEquals } from "@std/assert";
import { helpText } from "../../lib/cli/help.ts";
import { COMMANDS } from "../../lib/config/commands.ts";

/** Returns the lines of a help text without commands to type. */
function proseOf(text: string): string[] {
  return text.split("\n").filter((line) => !/^ {2}signpost /.test(line));
}

Deno.test("the help of all commands fits into 80 columns", () => {
  for (const name of [undefined, ...COMMANDS]) {
    assertEquals(proseOf(helpText(name)).filter(({ length }) => length > 80), [], name ?? "");
    assertEquals(helpText(name, 200), helpText(name));
  }
});

Deno.test("a narrower terminal gets narrower lines", () => {
  assert(proseOf(helpText("run", 60)).every((line) => line.length <= 60 || !line.includes(" ", 9)));
});

Deno.test("the help of a command has examples before flags", () => {
  const text = helpText("run");
  assert(text.indexOf("\nExamples:\n") < text.indexOf("\n  --once\n"));
  assert(text.includes("\n  --once\n        Print the script"));
});

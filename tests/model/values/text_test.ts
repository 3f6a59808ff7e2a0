import { assertEquals } from "@std/assert";
import { grouped, plain, show, tabIndentedLine } from "../../../lib/model/values/text.ts";
import { wordsOf } from "../../support/table.ts";

Deno.test("values appear in messages as one printable line", () => {
  assertEquals(show("a\nb\u001b[31m"), '"a\\nb\\u001b[31m"');
  assertEquals(show("\u0085\u2028\u202e"), '"\\u0085\\u2028\\u202e"');
  assertEquals(show(40), "40");
  assertEquals(show([1]), "[1]");
  assertEquals(show({ a: [1] }), '{"a":[1]}');
  assertEquals(show(null), "null");
  assertEquals(show("x".repeat(1_000)).length, 81);
  assertEquals(plain("a\tb é"), "a\\tb é");
});

Deno.test("a value that aliases make larger than memory is printed as far as its line goes", () => {
  let value: unknown = "x";
  for (let depth = 0; depth < 40; depth++) value = [value, value];
  assertEquals(show(value), `${"[".repeat(40)}"x","x"],["x","x"]],[["x","x"],["x","x"]…`);
  assertEquals(show(Array(200).fill(1)), `[${"1,".repeat(39)}1…`);
});

Deno.test("long numbers have commas", () => {
  assertEquals(
    [0, 999, 1_000, 65_536, 1_234_567].map(grouped),
    wordsOf("0 999 1,000 65,536 1,234,567"),
  );
});

Deno.test("a tab before a field or an item is found, not one in a text or in JSON", () => {
  const lines = [
    ["a:\n  b: 1\n\tc: 2\n", 3],
    ["a:\n  \tb:\n", 2],
    ["a:\n\t- b\n", 2],
    ["a: |\n  x\n  \tb: 1\nc: 1\n", undefined],
    ["- a: >-\n    x\n    \tb: 1\n\tc: 1\n", 4],
    ["a: 1\t\n\t\n\t# b: 1\n", undefined],
    ['{\n\t"a": 1\n}', undefined],
  ] as const;
  for (const [text, line] of lines) assertEquals(tabIndentedLine(text), line, text);
});

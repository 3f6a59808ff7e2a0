import { assertEquals } from "@std/assert";
import { colourTable, painter, renderReport } from "../../lib/cli/output.ts";
import { terseLog } from "../../lib/cli/context.ts";

Deno.test("colours are for terminals", () => {
  const uses = (isTerminal: boolean, variables: Readonly<Record<string, string>> = {}) =>
    renderReport({}, {
      output: "table",
      runtime: { isTerminal: () => isTerminal, environment: (name) => variables[name] },
      table: (_, paint) => paint("text", "red"),
    }) !== "text";
  assertEquals(uses(true), true);
  assertEquals(uses(true, { NO_COLOR: "" }), true);
  assertEquals(uses(true, { NO_COLOR: "1" }), false);
  assertEquals(uses(false, { FORCE_COLOR: "1", NO_COLOR: "1" }), true);
  assertEquals(uses(true, { FORCE_COLOR: "0" }), false);
  assertEquals(uses(true, { TERM: "dumb" }), false);
  assertEquals(uses(false), false);
});

Deno.test("a table with colours has the columns of one without", () => {
  const rows = [["NAME", "STATE", "NOTE"], [
    "web\n",
    { text: "wrong", colour: "red" as const },
    "x",
  ], ["a longer name", { text: "ok", colour: "green" as const }, ""]];
  const plain = colourTable(rows, { paint: painter(false), indent: "  " });
  assertEquals(
    plain,
    "  NAME           STATE  NOTE\n  web\\n          wrong  x\n  a longer name  ok\n",
  );
  const coloured = colourTable(rows, { paint: painter(true), indent: "  " });
  assertEquals(coloured.replace(/\p{Cc}\[\d+m/gu, ""), plain);
  assertEquals(coloured.includes("\x1b[31mwrong\x1b[0m"), true);
  assertEquals(colourTable([["ONLY A HEAD"]], { paint: painter(true) }), "");
});

Deno.test("commands that end at once complain in short lines", () => {
  const lines = (verbosity: number) => {
    const said: string[] = [];
    const logger = terseLog({ complain: (line) => said.push(line) }, { verbosity });
    logger.error("it failed");
    logger.warn("object refused", { key: "a/b\n", reason: undefined, count: 2 });
    logger.info("started");
    logger.debug(2, "details");
    return said;
  };
  assertEquals(lines(0), [
    "signpost: it failed",
    "signpost: warning: object refused: key=a/b\\n, count=2",
  ]);
  assertEquals(lines(2).slice(2), ["signpost: started", "signpost: details"]);
});

Deno.test("whatever a report says, no terminal obeys it, in any format", () => {
  const hostile = "a\x1b[2J\x07\u009b31m\n\u202eb\u2028\u2066c\u{e0001}";
  const runtime = { isTerminal: () => false, environment: () => undefined };
  const report = { zone: hostile, lists: [[hostile]], [hostile]: { deep: hostile } };
  for (const output of ["json", "yaml", "table"] as const) {
    const text = renderReport(report, { output, runtime, table: ({ zone }) => `zone ${zone}\n` });
    assertEquals(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text.replaceAll("\n", "")), false, text);
    assertEquals(text.includes("\n\u202eb"), false);
  }
  const json = renderReport(report, { output: "json", runtime, table: () => "" });
  assertEquals(JSON.parse(json), report);
});

/**
 * docs/output.md says what the commands print.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { topTable } from "../../lib/cli/top.ts";
import { readConnections, readStatus } from "../../lib/cli/client.ts";
import { type CheckReport, checkTable } from "../../lib/cli/check.ts";
import { verificationTable } from "../../lib/cli/verify.ts";
import { COMMAND_ROWS } from "../../lib/config/commands.ts";
import type { Verification } from "../../lib/model/kernel/differences.ts";

const TEXT = Deno.readTextFileSync(new URL("../../docs/output.md", import.meta.url));

/** The part of a command, from its heading to the next. */
function section(title: string): string {
  const [, rest = ""] = TEXT.split(`\n## ${title}\n`);
  return rest.split("\n## ")[0] ?? "";
}

function exampleOf(title: string): unknown {
  const [, json = ""] = /```json\n([\s\S]*?)```/.exec(section(title)) ?? [];
  return JSON.parse(json);
}

/** Names of all fields, without those of list entries that one row explains together. */
function fieldNames(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) {
    return [
      `${path}[]`,
      ...value.flatMap((v) => fieldNames(v, `${path}[]`)),
    ];
  }
  if (typeof value !== "object" || value === null) return path === "" ? [] : [path];
  return Object.entries(value).flatMap(([name, inner]) =>
    fieldNames(inner, path === "" ? name : `${path}.${name}`)
  );
}

Deno.test("the example of a status is one, and each of its fields is explained", () => {
  const example = exampleOf("signpost status");
  assertEquals(readStatus(example), example);
  const text = section("signpost status");
  for (const name of fieldNames(example)) {
    const last = name.slice(name.lastIndexOf(".") + 1);
    assert(text.includes(`\`${name}\``) || text.includes(`\`${last}\``), name);
  }
});

Deno.test("the example of a check prints as the table beside it", () => {
  const example = exampleOf("signpost check") as CheckReport;
  const text = section("signpost check");
  assert(text.includes(checkTable(example, (words) => words)));
  for (const name of fieldNames(example)) {
    const last = name.slice(name.lastIndexOf(".") + 1);
    assert(text.includes(`\`${name}\``) || text.includes(`\`${last}\``), name);
  }
});

Deno.test("the example of a verification prints as the table beside it", () => {
  const example = exampleOf("signpost verify") as Verification;
  const text = section("signpost verify");
  assert(
    text.includes(verificationTable(example, {
      paint: (words) => words,
      parts: "elements and rules",
    })),
  );
  for (const name of fieldNames(example)) assert(text.includes(`\`${name}\``), name);
});

Deno.test("the example of connections is one, and prints as the table beside it", () => {
  const example = readConnections(exampleOf("signpost top"));
  const text = section("signpost top");
  assert(text.includes(topTable(example, (words) => words)));
  for (const name of fieldNames(example)) {
    const last = name.slice(name.lastIndexOf(".") + 1);
    assert(text.includes(`\`${name}\``) || text.includes(`\`${last}\``), name);
  }
});

Deno.test("the exit codes are those of the help texts", () => {
  for (const name of ["check", "status", "top", "verify"] as const) {
    const rows = section(`signpost ${name}`).replaceAll("`", "");
    for (const [code, meaning] of COMMAND_ROWS[name].exitCodes) {
      const row = rows.split("\n").find((line) => line.startsWith(`| ${code} |`)) ?? "";
      const words = (text: string) =>
        text.replace(/[,;:.|]/g, "").trim().split(/\s+/).slice(0, 6).join(" ");
      assertEquals(
        words(row.slice(`| ${code} |`.length).trim()),
        words(meaning),
        `${name} ${code}`,
      );
    }
  }
});

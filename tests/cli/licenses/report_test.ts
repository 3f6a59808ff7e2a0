import { assertEquals, assertStringIncludes } from "@std/assert";
import { NOTICES } from "../../../lib/cli/licenses/notices.ts";
import { licensesReport } from "../../../lib/cli/licenses/report.ts";
import { readNotices } from "../../../tools/notices/read.ts";

Deno.test("the notices are those of the packages in deno.lock", async () => {
  const isSame = JSON.stringify(NOTICES) === JSON.stringify(await readNotices());
  assertEquals(isSame, true, "lib/cli/licenses/notices.ts is old: run deno task notices");
});

Deno.test("signpost licenses prints the notices of each package", () => {
  const report = licensesReport();
  for (const { name, version, publisher, license } of NOTICES) {
    assertStringIncludes(report, `  ${name} ${version} (${publisher}): ${license}\n`);
  }
  for (
    const notice of [
      "Copyright 2008 Google Inc.",
      "Copyright 2021-2026 Buf Technologies, Inc.",
      "the Deno authors. MIT license.",
      "Vitaly Puzrin",
      "whitequark",
    ]
  ) assertStringIncludes(report, notice);
});

/** A sentence of each licence. */
const TEXTS: Readonly<Record<string, string>> = {
  MIT: "Permission is hereby granted",
  "Apache-2.0": "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION",
  "BSD-3-Clause": "Redistribution and use in source",
};

Deno.test("every package has the text of each of its licences", () => {
  for (const { name, license, text } of NOTICES) {
    for (const [each] of license.matchAll(/\b(?!AND\b)[A-Za-z][\w.-]+/g)) {
      assertStringIncludes(text, TEXTS[each] ?? `a text for ${each}`, name);
    }
  }
});

import { assertEquals } from "@std/assert";
import { versionReport } from "../../lib/cli/version.ts";
import { VERSION } from "../../lib/model/version.ts";
import { runLine } from "./runtime.ts";
import config from "../../deno.json" with { type: "json" };

const BUILD = { deno: "2.9.6", v8: "15.0", jitless: false, target: "x86_64-unknown-linux-gnu" };

Deno.test("signpost version tells release, commit, day, Deno, engine and target", () => {
  assertEquals(
    versionReport(BUILD, { commit: "0123456789ab", date: "2026-11-23" }),
    `signpost ${VERSION}
commit: 0123456789ab
date: 2026-11-23
Deno: 2.9.6
engine: V8 15.0
target: x86_64-unknown-linux-gnu
`,
  );
});

Deno.test("a jitless binary says so", () => {
  const report = versionReport({ ...BUILD, jitless: true }, { commit: "0", date: "2026-11-23" });
  assertEquals(report.split("\n")[4], "engine: V8 15.0, jitless");
});

Deno.test("signpost version from its source has no commit", async () => {
  const { code, printed } = await runLine(["version"], { build: BUILD });
  assertEquals([code, printed.join("").split("\n").slice(0, 3)], [0, [
    `signpost ${VERSION}`,
    "commit: unknown, runs from its source",
    "Deno: 2.9.6",
  ]]);
});

Deno.test("the release is that of deno.json", () => {
  assertEquals(config.version, VERSION);
});

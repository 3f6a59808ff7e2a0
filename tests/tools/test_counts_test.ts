import { assertEquals } from "@std/assert";
import { countTests } from "../../tools/test_counts.ts";

const REPORT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="6" failures="2" errors="1" time="0.009">
    <testsuite name="./a_test.ts" tests="6" disabled="1" errors="1" failures="2">
        <testcase name="ignored" classname="./a_test.ts">
            <skipped/>
        </testcase>
    </testsuite>
</testsuites>`;

Deno.test("failures and errors count as failed, ignored tests as nothing", () => {
  assertEquals(countTests(REPORT, 1), { passed: 2, failed: 3 });
});

Deno.test("a run that failed before its first test is one failure", () => {
  assertEquals(countTests("", 1), { passed: 0, failed: 1 });
});

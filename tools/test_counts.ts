/**
 * Counts the tests of a JUnit report.
 *
 * @module
 */

/** How many tests ended how. */
export interface TestCounts {
  readonly passed: number;
  /** Failures and errors, files that could not be loaded among them. */
  readonly failed: number;
}

/**
 * Reads the counts from the report of `deno test --junit-path`. Steps count as tests; ignored
 * tests do not.
 *
 * @param exitCode of `deno test`: where it failed before any test ran, that is one failure
 */
export function countTests(report: string, exitCode: number): TestCounts {
  const head = /<testsuites\b[^>]*>/.exec(report)?.[0] ?? "";
  const count = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
  const failed = count("failures") + count("errors");
  const ignored = report.split("<skipped/>").length - 1;
  return {
    passed: count("tests") - failed - ignored,
    failed: failed === 0 && exitCode !== 0 ? 1 : failed,
  };
}

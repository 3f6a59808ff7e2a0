/**
 * `deno task test`: all tests, after the programs that they run have been installed.
 *
 * Arguments go to `deno test`; without a path among them, everything under `tests/` is run. The
 * last line is `N passed, N failed`.
 *
 * @module
 */
import { installPrograms, TEST_PROGRAMS } from "./programs.ts";
import { complain, say } from "./terminal.ts";
import { countTests } from "./test_counts.ts";

/** Runs the tests. @returns the exit code of `deno test` */
async function main(args: readonly string[]): Promise<number> {
  const problem = await installPrograms(TEST_PROGRAMS);
  if (problem !== undefined) complain(`Tests in a real kernel will fail: ${problem}.`);
  const report = await Deno.makeTempFile({ prefix: "signpost-test-", suffix: ".xml" });
  try {
    const paths = args.some((arg) => !arg.startsWith("-")) ? [] : ["tests/"];
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "--allow-all", `--junit-path=${report}`, ...args, ...paths],
    }).spawn().status;
    const { passed, failed } = countTests(await Deno.readTextFile(report), code);
    say(`${passed} passed, ${failed} failed`);
    return code;
  } finally {
    await Deno.remove(report);
  }
}

if (import.meta.main) {
  // Ctrl-C reaches deno test as well; this process waits for it.
  Deno.addSignalListener("SIGINT", () => {});
  Deno.exit(await main(Deno.args));
}

/**
 * `deno task test`: all tests, after the programs that they run have been installed.
 *
 * Without a path among the arguments, the unit tests run first, without the permission to start a
 * program, and then all others, two files at a time or as many as DENO_JOBS says. Arguments go to
 * `deno test`. `--unit` runs the unit tests alone. The last line is `N passed, N failed`.
 *
 * @module
 */
import { installPrograms, TEST_PROGRAMS } from "./programs.ts";
import { complain, say } from "./terminal.ts";
import { countTests, type TestCounts } from "./test_counts.ts";
import { findTestFiles } from "./test_files.ts";

const ROOT = new URL("../", import.meta.url).pathname;

/** Permissions of the unit tests. Types are left to `deno task check`: that takes 5 s. */
const UNIT_OPTIONS: readonly string[] = [
  "--no-check",
  "--allow-read",
  "--allow-write",
  "--allow-env",
  "--allow-net",
  "--allow-sys",
];

/** Packet tests with short deadlines fail if many files run at a time. */
const SYSTEM_JOBS = "2";

/**
 * Runs the tests.
 *
 * @param interrupted no further run starts after it
 * @returns the exit code of `deno test`
 */
async function main(args: readonly string[], interrupted: AbortSignal): Promise<number> {
  const isUnit = args.includes("--unit");
  const rest = args.filter((arg) => arg !== "--unit");
  const hasPath = rest.some((arg) => !arg.startsWith("-"));
  const files = await findTestFiles(ROOT);
  const runs: Run[] = [];
  if (isUnit || !hasPath) runs.push(await test([...UNIT_OPTIONS, ...rest, ...files.unit]));
  if (!isUnit && !interrupted.aborted) {
    const problem = await installPrograms(TEST_PROGRAMS);
    if (problem !== undefined) complain(`Tests in a real kernel will fail: ${problem}.`);
    const paths = hasPath ? [] : files.system;
    runs.push(await test(["--allow-all", ...rest, ...paths], SYSTEM_JOBS));
  }
  const sum = (count: keyof TestCounts) => runs.reduce((total, { [count]: n }) => total + n, 0);
  say(`${sum("passed")} passed, ${sum("failed")} failed`);
  return runs.find(({ code }) => code !== 0)?.code ?? 0;
}

interface Run extends TestCounts {
  /** Exit code of `deno test`. */
  readonly code: number;
}

/** Runs `deno test` once. */
async function test(args: readonly string[], jobs?: string): Promise<Run> {
  const report = await Deno.makeTempFile({ prefix: "signpost-test-", suffix: ".xml" });
  try {
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "--parallel", `--junit-path=${report}`, ...args],
      ...(jobs !== undefined && { env: { DENO_JOBS: Deno.env.get("DENO_JOBS") ?? jobs } }),
    }).spawn().status;
    return { code, ...countTests(await Deno.readTextFile(report), code) };
  } finally {
    await Deno.remove(report);
  }
}

if (import.meta.main) {
  // Ctrl-C reaches deno test as well; this process waits for it.
  const stop = new AbortController();
  Deno.addSignalListener("SIGINT", () => stop.abort());
  Deno.exit(await main(Deno.args, stop.signal));
}

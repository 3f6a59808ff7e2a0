/** Runs `.ci/run` in a folder of its own, where a script takes the place of Deno. */
import { assertEquals, assertMatch } from "@std/assert";
import { execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const SCRIPT = new URL("../../.ci/run", import.meta.url);

/** Gives a folder the script, stand-ins of the recorded flows, and one of npx that runs these lines of shell. */
async function prepare(folder: string, lines: string): Promise<Record<string, string>> {
  await Deno.mkdir(`${folder}/.ci`);
  await Deno.copyFile(SCRIPT, `${folder}/.ci/run`);
  await Deno.mkdir(`${folder}/tests/conformance`, { recursive: true });
  const flows = '#!/bin/sh\necho "2/2 flows as expected, 0 skipped"\n';
  await Deno.writeTextFile(`${folder}/tests/conformance/flows.py`, flows, { mode: 0o755 });
  await Deno.writeTextFile(`${folder}/npx`, `#!/bin/sh\n${lines}`, { mode: 0o755 });
  return { PATH: `${folder}:${Deno.env.get("PATH")}` };
}

/**
 * Runs it where all tests together fail in these files.
 *
 * @param files by path, what the file does alone: passes, fails, or has no test
 * @returns the exit code and the lines after the last step
 */
async function integrate(files: Readonly<Record<string, "passes" | "fails" | "is empty">>) {
  await using folder = await makeFolder("ci");
  const all = Object.keys(files);
  const counts = {
    passes: "3 passed, 0 failed",
    fails: "3 passed, 1 failed",
    "is empty": "0 passed, 0 failed",
  };
  // A step names the file that registers it as the place of the failure.
  const report = (path: string) =>
    `${path} => a test ... a step ... FAILED (1ms)\na test => ./tests/support/steps.ts:3:6`;
  const env = await prepare(
    folder.path,
    `case "$*" in
*"task test") echo "${all.map(report).join("\n")}
${100 - all.length} passed, ${all.length} failed"; exit 1 ;;
${
      Object.entries(files).map(([path, how]) => `  *"task test ${path}") echo "${counts[how]}" ;;`)
        .join("\n")
    }
esac
`,
  );
  const { code, stdout } = await execute([`${folder.path}/.ci/run`], { env });
  return { code, lines: stdout.slice(stdout.lastIndexOf("\n\n")).trim().split("\n") };
}

Deno.test("the integration names each flaky file and passes with two", async () => {
  const { code, lines } = await integrate({
    "./tests/a_test.ts": "passes",
    "./tests/b/c_test.ts": "passes",
  });
  assertEquals(lines.slice(0, 2), [
    "flaky: ./tests/a_test.ts failed, then passed alone",
    "flaky: ./tests/b/c_test.ts failed, then passed alone",
  ]);
  assertEquals([code, lines.length, / 0 failed$/.test(lines[2] ?? "")], [0, 3, true]);
});

Deno.test("the integration fails with three flaky files", async () => {
  const { code, lines } = await integrate({
    "./tests/a_test.ts": "passes",
    "./tests/b_test.ts": "passes",
    "./tests/c_test.ts": "passes",
  });
  assertEquals(lines[3], "failed: flaky test files: 3, at most 2 are allowed");
  assertEquals([code, / 1 failed$/.test(lines[4] ?? "")], [1, true]);
});

Deno.test("a test that fails alone as well is not flaky", async () => {
  const { code, lines } = await integrate({
    "./tests/a_test.ts": "fails",
    "./tests/b_test.ts": "passes",
  });
  assertEquals(lines[0], "flaky: ./tests/b_test.ts failed, then passed alone");
  assertEquals(lines[1], "failed: tests: 1");
  assertEquals([code, / 1 failed$/.test(lines[2] ?? "")], [1, true]);
});

Deno.test("a file that runs no test alone has not passed", async () => {
  const { code, lines } = await integrate({ "./tests/a_test.ts": "is empty" });
  assertEquals([code, lines[0]], [1, "failed: tests: 1"]);
});

Deno.test("results are recorded for the commit at the start", async () => {
  await using folder = await makeFolder("ci");
  const env = await prepare(
    folder.path,
    `case "$*" in
*"task test") echo "7 passed, 0 failed" ;;
*"task -q tested"*) echo "recorded $*"; echo changed >> .ci/run.txt ;;
esac
`,
  );
  const git = async (...words: string[]) => {
    const identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    return (await execute(["git", "-C", folder.path, ...identity, ...words])).stdout.trim();
  };
  await Deno.writeTextFile(`${folder.path}/.ci/run.txt`, "");
  await git("init", "--quiet");
  await git("add", ".");
  await git("commit", "--quiet", "--message=first");
  const run = () => execute([`${folder.path}/.ci/run`, "--record", "a machine"], { env });
  const { stdout } = await run();
  const commit = await git("rev-parse", "--short=7", "HEAD");
  assertMatch(
    stdout,
    new RegExp(
      `tested --name all tests --mode all --passed 7 --total 7 --on a machine --commit ${commit}\n`,
    ),
  );
  const again = await run();
  assertEquals(
    [again.code, again.stdout, again.stderr],
    [2, "", `cannot record results: files differ from commit ${commit}; commit them first\n`],
  );
});

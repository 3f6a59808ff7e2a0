import { assertEquals, assertMatch } from "@std/assert";
import { parse } from "@std/yaml";

const ROOT = new URL("../../", import.meta.url);

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps: readonly { readonly uses?: string; readonly run?: string }[];
}

const { jobs } = parse(
  Deno.readTextFileSync(new URL(".github/workflows/release.yml", ROOT)),
) as { readonly jobs: Readonly<Record<string, Job>> };

Deno.test("no program of the repository runs in a job of the release that can sign provenance", () => {
  const signing = Object.entries(jobs).filter(([, { permissions }]) => permissions?.["id-token"]);
  assertEquals(signing.map(([name]) => name), ["attest", "publish"]);
  const commands = signing.flatMap(([, { steps }]) => steps.map(({ run = "" }) => run));
  assertEquals(commands.filter((run) => /\b(?:deno|sudo)\b/.test(run)), []);
});

Deno.test("the release is attested before its tests run, and published after them", () => {
  assertEquals(jobs["test"]?.needs, "attest");
  assertEquals(jobs["publish"]?.needs, ["attest", "test"]);
});

Deno.test("the release takes Deno by its hash", () => {
  for (const name of ["build", "test"]) {
    const text = JSON.stringify(jobs[name]);
    assertMatch(text, /sha256sum --check <<< \\"[0-9a-f]{64} {2}\$RUNNER_TEMP\/deno\/deno/);
    assertEquals(/setup-deno/.test(text), false);
  }
});

Deno.test("the lock file names only packages that deno.json names", () => {
  const lock = JSON.parse(Deno.readTextFileSync(new URL("deno.lock", ROOT)));
  assertEquals(Object.keys(lock.specifiers).toSorted(), lock.workspace.dependencies.toSorted());
});

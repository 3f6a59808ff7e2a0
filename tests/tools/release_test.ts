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

Deno.test("no program of the repository runs in a job that can sign provenance", () => {
  const signing = Object.entries(jobs).filter(([, { permissions }]) => permissions?.["id-token"]);
  assertEquals(signing.map(([name]) => name), ["attest", "publish"]);
  const commands = signing.flatMap(([, { steps }]) => steps.map(({ run = "" }) => run));
  assertEquals(commands.filter((run) => /\b(?:deno|sudo)\b/.test(run)), []);
});

Deno.test("the release is checked first, published last", () => {
  assertEquals(jobs["build"]?.needs, "check");
  assertEquals([jobs["test"]?.needs, jobs["package"]?.needs], ["attest", "attest"]);
  assertEquals(jobs["publish"]?.needs, ["attest", "test", "package"]);
});

Deno.test("the workflows take Deno by its hash", () => {
  const action = Deno.readTextFileSync(new URL(".github/actions/deno/action.yml", ROOT));
  assertMatch(action, /sha256sum --check <<< "\$\{!RUNNER_ARCH\} {2}deno"/);
  assertEquals(/setup-deno/.test(JSON.stringify(jobs)), false);
});

Deno.test("the lock file names only packages that deno.json names", () => {
  const lock = JSON.parse(Deno.readTextFileSync(new URL("deno.lock", ROOT)));
  assertEquals(Object.keys(lock.specifiers).toSorted(), lock.workspace.dependencies.toSorted());
});

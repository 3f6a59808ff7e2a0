import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { parse } from "@std/yaml";
import config from "../../deno.json" with { type: "json" };
import { type CommandOptions, execute, run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";
import { goProgram } from "../../tools/go.ts";

const ROOT = new URL("../../", import.meta.url);

interface Step {
  readonly name?: string;
  readonly run?: string;
}

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
  readonly "timeout-minutes": number;
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const WORKFLOWS = ["ci", "nightly", "release", "packages"];

async function read(name: string) {
  const text = await Deno.readTextFile(new URL(`.github/workflows/${name}.yml`, ROOT));
  const workflow = parse(text) as Workflow;
  return { text, workflow, steps: Object.values(workflow.jobs).flatMap(({ steps }) => steps) };
}

for (const name of WORKFLOWS) {
  Deno.test(`${name}.yml uses tasks that exist, Deno's version, pinned actions`, async () => {
    const { text, steps, workflow } = await read(name);
    const scripts = steps.map(({ run = "" }) => run).join("\n");
    const tasks = [...scripts.matchAll(/deno task ([\w:]+)/g)].map(([, task = ""]) => task);
    assertEquals(tasks.filter((task) => !(task in config.tasks)), []);
    const paths = [...scripts.matchAll(/\btests\/[\w/]+(?:\.ts)?|\.ci\/run/g)].map(([path]) =>
      path
    );
    for (const path of paths) await Deno.stat(new URL(path, ROOT));

    const action = await Deno.readTextFile(new URL(".github/actions/deno/action.yml", ROOT));
    const ci = await Deno.readTextFile(new URL(".ci/run", ROOT));
    const versions = [...action.matchAll(/@(\d[\d.]+\d)"/g)].map(([, version]) => version);
    assertEquals(versions.map((version) => ci.includes(`deno@${version}`)), [true]);

    assertEquals(workflow.permissions, { contents: "read" });
    for (const job of Object.values(workflow.jobs)) {
      assertEquals(typeof job["timeout-minutes"], "number");
    }
    for (const line of text.match(/\buses: [^.].*/g) ?? []) {
      assertMatch(line, /^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v[\d.]+$/);
    }
  });
}

const actionlint = await goProgram("github.com/rhysd/actionlint/cmd/actionlint@v1.7.7");

Deno.test({
  name: "actionlint takes the workflows",
  ignore: actionlint === undefined,
  fn: async () => {
    const files = WORKFLOWS.map((name) => `.github/workflows/${name}.yml`);
    const { code, stdout } = await execute([actionlint ?? "", ...files], { cwd: ROOT.pathname });
    assertEquals({ code, stdout }, { code: 0, stdout: "" });
  },
});

/** Runs the step of a workflow that has this name. */
async function runStep(name: string, options: CommandOptions) {
  const { steps } = await read("release");
  const script = steps.find((each) => each.name === name)?.run ?? "exit 1";
  return await execute(["bash", "-eo", "pipefail", "-c", script], options);
}

Deno.test("a release has the notes of its version from the changelog", async () => {
  await using folder = await makeFolder("release");
  await run(["cp", "-r", `${ROOT.pathname}charts`, folder.path]);
  const changelog = "# C\n\n## [Unreleased]\n\nno\n\n## [0.1.0] - 2026-12-01\n\nyes\n";
  await Deno.writeTextFile(`${folder.path}/CHANGELOG.md`, changelog);
  // Records how it was called.
  const helm = '#!/bin/sh\necho "$@" > helm-called\n';
  await Deno.writeTextFile(`${folder.path}/helm`, helm, { mode: 0o755 });
  const env = {
    GITHUB_REF_NAME: "v0.1.0",
    GITHUB_REPOSITORY: "Some/Signpost",
    PATH: `${folder.path}:${Deno.env.get("PATH")}`,
  };
  const notes = await runStep("Notes from CHANGELOG.md", { cwd: folder.path, env });
  assertEquals(notes.code, 0, notes.stderr);
  assertEquals((await Deno.readTextFile(`${folder.path}/notes.md`)).trim(), "yes");

  const chart = await runStep("Chart", { cwd: folder.path, env });
  assertEquals(chart.code, 0, chart.stderr);
  const values = await Deno.readTextFile(`${folder.path}/charts/signpost/values.yaml`);
  assertStringIncludes(values, "\n  repository: ghcr.io/some/signpost\n");
  assertEquals(
    await Deno.readTextFile(`${folder.path}/helm-called`),
    "package charts/signpost --version 0.1.0 --app-version 0.1.0 --destination dist\n",
  );
});

Deno.test("a release ends at once if the tag is not the version", async () => {
  const check = (tag: string, repository: string) =>
    runStep("The tag is the version everywhere, and deno.json names this repository", {
      cwd: ROOT.pathname,
      env: {
        GITHUB_REF_NAME: tag,
        GITHUB_SERVER_URL: "https://github.com",
        GITHUB_REPOSITORY: repository,
        GITHUB_REPOSITORY_OWNER: repository.split("/")[0] ?? "",
      },
    });
  const own = new URL(config.repository).pathname.slice(1);
  const good = await check(`v${config.version}`, own);
  assertEquals([good.code, good.stdout], [0, ""], good.stderr);
  assertStringIncludes((await check("v9.9.9", own)).stdout, "deno.json has another version");
  assertStringIncludes(
    (await check(`v${config.version}`, "Some/signpost")).stdout,
    "run deno task owner Some",
  );
});

Deno.test("no program of the repository runs in a job that can sign provenance", async () => {
  const { jobs } = (await read("release")).workflow;
  const signing = Object.entries(jobs).filter(([, { permissions }]) => permissions?.["id-token"]);
  assertEquals(signing.map(([name]) => name), ["attest", "publish"]);
  const commands = signing.flatMap(([, { steps }]) => steps.map(({ run = "" }) => run));
  assertEquals(commands.filter((run) => /\b(?:deno|sudo)\b/.test(run)), []);
});

Deno.test("the release is checked first, published last", async () => {
  const { jobs } = (await read("release")).workflow;
  assertEquals(jobs["build"]?.needs, "check");
  assertEquals([jobs["test"]?.needs, jobs["package"]?.needs], ["attest", "attest"]);
  assertEquals(jobs["publish"]?.needs, ["attest", "test", "package"]);
});

Deno.test("the release takes Deno by its hash", async () => {
  const action = await Deno.readTextFile(new URL(".github/actions/deno/action.yml", ROOT));
  assertMatch(action, /sha256sum --check <<< "\$\{!RUNNER_ARCH\} {2}deno"/);
  assertEquals((await read("release")).text.includes("setup-deno"), false);
});

Deno.test("the lock file names only packages that deno.json names", async () => {
  const lock = JSON.parse(await Deno.readTextFile(new URL("deno.lock", ROOT)));
  assertEquals(Object.keys(lock.specifiers).toSorted(), lock.workspace.dependencies.toSorted());
});

Deno.test("the changelog has a section for what is not released, or for the version", async () => {
  const text = await Deno.readTextFile(new URL("CHANGELOG.md", ROOT));
  const sections = [...text.matchAll(/^## \[(.+?)\]/gm)].map(([, name]) => name);
  assertEquals(["Unreleased", config.version].includes(sections[0] ?? ""), true);
});

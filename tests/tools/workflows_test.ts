import { assertEquals, assertMatch } from "@std/assert";
import { parse } from "@std/yaml";
import config from "../../deno.json" with { type: "json" };

const ROOT = new URL("../../", import.meta.url);

interface Step {
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<
    Record<string, { readonly steps: readonly Step[]; readonly "timeout-minutes": number }>
  >;
}

const WORKFLOWS = ["ci", "release"];

async function read(name: string) {
  const text = await Deno.readTextFile(new URL(`.github/workflows/${name}.yml`, ROOT));
  const workflow = parse(text) as Workflow;
  return { text, workflow, steps: Object.values(workflow.jobs).flatMap(({ steps }) => steps) };
}

for (const name of WORKFLOWS) {
  Deno.test(`${name}.yml runs tasks that there are, Deno's version of .ci/run, and actions by their digest`, async () => {
    const { text, steps, workflow } = await read(name);
    const scripts = steps.map(({ run = "" }) => run).join("\n");
    const tasks = [...scripts.matchAll(/deno task ([\w:]+)/g)].map(([, task = ""]) => task);
    assertEquals(tasks.filter((task) => !(task in config.tasks)), []);
    const paths = [...scripts.matchAll(/\btests\/[\w/]+(?:\.ts)?|\.ci\/run/g)].map(([path]) =>
      path
    );
    for (const path of paths) await Deno.stat(new URL(path, ROOT));

    const run = await Deno.readTextFile(new URL(".ci/run", ROOT));
    const versions = steps.filter(({ uses = "" }) => uses.startsWith("denoland/setup-deno"))
      .map((step) => `deno@${step.with?.["deno-version"]}`);
    assertEquals(versions.filter((version) => !run.includes(version)), []);

    assertEquals(workflow.permissions, { contents: "read" });
    for (const job of Object.values(workflow.jobs)) {
      assertEquals(typeof job["timeout-minutes"], "number");
    }
    for (const line of text.match(/\buses:.*/g) ?? []) {
      assertMatch(line, /^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v[\d.]+$/);
    }
  });
}

Deno.test("the changelog has a section for what is not released, or for the version", async () => {
  const text = await Deno.readTextFile(new URL("CHANGELOG.md", ROOT));
  const sections = [...text.matchAll(/^## \[(.+?)\]/gm)].map(([, name]) => name);
  assertEquals(["Unreleased", config.version].includes(sections[0] ?? ""), true);
});

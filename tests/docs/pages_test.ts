/** The pages link to what is there, and name each task. */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path/posix";
import { FLAGS } from "../../lib/config/commands.ts";
import { SCHEDULERS } from "../../lib/model/cluster/scheduler.ts";
import config from "../../deno.json" with { type: "json" };
import { wordsOf } from "../support/table.ts";
import { exists, filesBelow, read } from "./checkout.ts";

async function pages(): Promise<ReadonlyMap<string, string>> {
  const names = wordsOf(`
    README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md ROADMAP.md lib/README.md bench/README.md
    tests/README.md
  `);
  names.push(...filesBelow("docs/").filter((name) => name.endsWith(".md")));
  return new Map(await Promise.all(names.map(async (name) => [name, await read(name)] as const)));
}

/** The text of a page without code, generated tables, links and marks. */
function proseOf(text: string): string {
  return text
    .replace(/```[^]*?```|^ {4}.*$|<!-- (\w+): begin -->[^]*?<!-- \1: end -->/gm, "")
    .replace(/\]\([^)]*\)|[*`[\]]/g, "");
}

/** Returns the path of a link, from the root. */
function targetOf(page: string, path: string): string {
  return join(dirname(page), path);
}

Deno.test("the pages link to files that are there", async () => {
  const missing: string[] = [];
  let links = 0;
  for (const [name, text] of await pages()) {
    for (const [, path = ""] of text.matchAll(/\]\(([^):#]+)(?:#[^)]*)?\)/g)) {
      links++;
      if (!await exists(targetOf(name, path))) missing.push(`${name}: ${path}`);
    }
  }
  assert(links > 20);
  assertEquals(missing, []);
});

/** Anchors of a page's headings, as GitHub makes them. */
function anchorsOf(text: string): ReadonlySet<string> {
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) => heading.toLowerCase().replace(/[^\w\- ]/g, "").replaceAll(" ", "-")),
  );
}

Deno.test("the pages link to headings that are there", async () => {
  const missing: string[] = [];
  for (const [name, text] of await pages()) {
    for (const [, path = "", anchor = ""] of text.matchAll(/\]\(([^):#]*)#([^)]*)\)/g)) {
      const target = path === "" ? text : await read(targetOf(name, path));
      if (!anchorsOf(target).has(anchor)) missing.push(`${name}: ${path}#${anchor}`);
    }
  }
  assertEquals(missing, []);
});

Deno.test("the tasks that the pages name exist", async () => {
  const tasks = Object.keys(config.tasks);
  for (const [name, text] of await pages()) {
    const named = [...text.matchAll(/deno(?:@[\d.]+)? task (?:-q )?([a-z:]+)/g)];
    assertEquals(
      named.map(([, task = ""]) => task).filter((task) => !tasks.includes(task)),
      [],
      name,
    );
  }
  const silent = Object.values(config.tasks).filter(({ description }) => description.length < 20);
  assertEquals(silent, []);
});

Deno.test("the flags that the pages for users name are there", async () => {
  // Flags of kubeadm, Helm and kubectl; two pages name flags of tasks.
  const known = new Set([...FLAGS.map(({ name }) => name), "skip-phases", "set", "to-revision"]);
  const users = [...await pages()].filter(([name]) =>
    /^(?:docs\/|README)/.test(name) && !["docs/tested.md", "docs/kernels.md"].includes(name)
  );
  const named = users.flatMap(([page, text]) =>
    [...text.matchAll(/`--([a-z0-9-]+)/g)].map(([, flag = ""]) => ({ page, flag }))
  );
  assert(named.length > 20);
  assertEquals(named.filter(({ flag }) => !known.has(flag)), []);
});

Deno.test("docs/ipvs.md names every scheduler", async () => {
  const text = (await pages()).get("docs/ipvs.md") ?? "";
  assertEquals(SCHEDULERS.filter((scheduler) => !text.includes(scheduler)), []);
});

Deno.test("no two pages have a sentence in common", async () => {
  const owners = new Map<string, Set<string>>();
  for (const [name, text] of await pages()) {
    if (["CHANGELOG.md", "docs/findings.md"].includes(name)) continue;
    const prose = proseOf(text);
    for (const sentence of prose.split(/[.:;|](?:\s|$)|\n\n|\n- /)) {
      const words = sentence.trim().split(/\s+/);
      if (words.length < 8) continue;
      const key = words.join(" ").toLowerCase();
      owners.set(key, (owners.get(key) ?? new Set()).add(name));
    }
  }
  assertEquals([...owners].filter(([, names]) => names.size > 1), []);
});

Deno.test("a measured figure stands on one page", async () => {
  const owners = new Map<string, Set<string>>();
  for (const [name, text] of await pages()) {
    if (name === "CHANGELOG.md") continue;
    const prose = proseOf(text.replace(/`[^`\n]+`/g, ""));
    for (const [figure] of prose.matchAll(/(?<![\w.])\d[\d.,]* (?:ms|kB|MB|GB|%)(?!\w)/g)) {
      owners.set(figure, (owners.get(figure) ?? new Set()).add(name));
    }
  }
  // A setting of the measurements, a time of the kernel, and a result.
  owners.delete("10 ms");
  assertEquals([...owners].filter(([, names]) => names.size > 1), []);
});

Deno.test("at most one sentence in twenty of a page has more than 20 words", async () => {
  for (const [name, text] of await pages()) {
    if (name === "CHANGELOG.md") continue;
    const sentences = proseOf(text.replace(/^#.*$/gm, "\n"))
      .split(/[.:;?!](?=\s|$)|\n\n|\n- |\|/)
      .map((sentence) => sentence.trim().split(/\s+/))
      .filter(({ length }) => length > 1);
    const long = sentences.filter(({ length }) => length > 20);
    // A short page may have two.
    assert(
      long.length <= Math.max(2, sentences.length / 20),
      `${name}:\n${long.map((words) => words.join(" ")).join("\n")}`,
    );
  }
});

Deno.test("lib/README.md has at most 2,500 words without its glossary", async () => {
  const [text = ""] = ((await pages()).get("lib/README.md") ?? "").split("\n## Words\n");
  assert(text.split(/\s+/).length <= 2500);
});

Deno.test("lib/README.md names each folder of lib", async () => {
  const text = (await pages()).get("lib/README.md") ?? "";
  const files = ["main.ts", ...["lib/", "tests/"].flatMap(filesBelow)];
  const named = [...text.matchAll(/`([\w/]+(?:\/|\.ts))`/g)].map(([, path = ""]) => path);
  const missing = named.filter((path) =>
    !files.some((file) =>
      path.endsWith("/") ? `/${file}`.includes(`/${path}`) : `/${file}`.endsWith(`/${path}`)
    )
  );
  assertEquals(missing, []);
  const folders = new Set(
    files.filter((file) => file.startsWith("lib/")).map((file) => file.split("/")[1]),
  );
  assertEquals([...folders].filter((each) => !text.includes(`| \`${each}/\` |`)), ["README.md"]);
});

Deno.test("the README has at most 120 lines", async () => {
  assert((await read("README.md")).split("\n").length <= 121);
});

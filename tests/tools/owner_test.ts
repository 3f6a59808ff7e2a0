import { assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Returns the publishers that a checkout names, by file. */
async function owners(folder: string): Promise<Map<string, Set<string>>> {
  const pattern =
    "(github(usercontent)?\\.com/|ghcr\\.io/|--repo )[\\w-]+(?=/(charts/)?signpost\\b)";
  const places = ["deno.json", "README.md", "docs", "examples", "charts"];
  const text = await run(["git", "-C", folder, "grep", "-oP", pattern, "--", ...places]);
  const found = new Map<string, Set<string>>();
  for (const [, path = "", owner = ""] of text.matchAll(/^([^:]+):.*[/ ](.+)$/gm)) {
    found.set(path, (found.get(path) ?? new Set()).add(owner));
  }
  return found;
}

Deno.test("all files for users name the publisher of deno.json", async () => {
  const mentions = await owners(ROOT);
  const owner = new URL(config.repository).pathname.split("/")[1] ?? "";
  const isOwner = (name: string) => name.toLowerCase() === owner.toLowerCase();
  assertEquals([...mentions].filter(([, names]) => ![...names].every(isOwner)), []);
  await using folder = await makeFolder("owner");
  const files = ["tools/owner.sh", ...mentions.keys()];
  await run(["cp", "--parents", ...files, folder.path], { cwd: ROOT });
  await run(["git", "init", "-q", folder.path]);
  await run(["git", "-C", folder.path, "add", "."]);
  await run([`${folder.path}/tools/owner.sh`, "Acme-Inc"]);
  const renamed = await owners(folder.path);
  assertEquals([...renamed.keys()], [...mentions.keys()]);
  assertEquals(
    new Set([...renamed.values()].flatMap((names) => [...names])),
    new Set(["Acme-Inc", "acme-inc"]),
  );
});

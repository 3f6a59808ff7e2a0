import { assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

function sourcesBelow(folder: string): string[] {
  return [...Deno.readDirSync(new URL(folder, ROOT))].flatMap(({ name, isDirectory }) =>
    isDirectory ? sourcesBelow(`${folder}${name}/`) : name.endsWith(".ts") ? [folder + name] : []
  );
}

Deno.test("docs/metrics.md has every metric that is signpost's own", () => {
  const read = (path: string) => Deno.readTextFileSync(new URL(path, ROOT));
  const made = ["lib/observe/", "lib/backend/", "lib/daemon/"].flatMap(sourcesBelow)
    .flatMap((path) => read(path).match(/(?<=")signpost_[a-z_]+(?=")/g) ?? []);
  const described = read("docs/metrics.md").match(/(?<=`)signpost_[a-z_]+(?=`)/g) ?? [];
  assertEquals([...new Set(described)].sort(), [...new Set(made)].sort());
});

import { assert, assertEquals } from "@std/assert";
import { findOwners, OWNER } from "../../tools/owner.ts";

Deno.test("all files for users name the publisher of deno.json", async () => {
  const mentions = await findOwners();
  const other = mentions.filter(({ owner }) => owner.toLowerCase() !== OWNER.toLowerCase());
  assertEquals(other, []);
  const paths = new Set(mentions.map(({ path }) => path));
  for (const path of ["deno.json", "README.md", "charts/signpost/Chart.yaml"]) {
    assert(paths.has(path), path);
  }
  for (const path of ["docs/install/helm.md", "examples/install/daemonset.yaml"]) {
    assert(paths.has(path), path);
  }
});

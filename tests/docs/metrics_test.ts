import { assertEquals } from "@std/assert";
import { filesBelow, read } from "./checkout.ts";

Deno.test("docs/metrics.md has every metric that is signpost's own", async () => {
  const sources = ["lib/observe/", "lib/backend/", "lib/daemon/"].flatMap(filesBelow);
  const texts = await Promise.all(sources.map(read));
  const made = texts.flatMap((text) => text.match(/(?<=")signpost_[a-z_]+(?=")/g) ?? []);
  const described = (await read("docs/metrics.md")).match(/(?<=`)signpost_[a-z_]+(?=`)/g) ?? [];
  assertEquals([...new Set(described)].sort(), [...new Set(made)].sort());
});

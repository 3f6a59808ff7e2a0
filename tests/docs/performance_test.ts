import { assertEquals } from "@std/assert";
import { type PeerResults, renderComparison, renderPeerPage } from "../../bench/peer.ts";
import recorded from "../../bench/peer.json" with { type: "json" };

const read = (path: string) => Deno.readTextFile(new URL(`../../${path}`, import.meta.url));

Deno.test("docs/performance.md and README.md have the tables of the recorded measurements", async () => {
  const results = recorded as PeerResults;
  const page = await read("docs/performance.md");
  assertEquals(renderPeerPage(page, results), page);
  const readme = await read("README.md");
  assertEquals(renderComparison(readme, results), readme);
});

import { assertEquals } from "@std/assert";
import { type PeerResults, renderComparison, renderPeerPage } from "../../bench/peer.ts";
import recorded from "../../bench/peer.json" with { type: "json" };
import { read } from "./checkout.ts";

Deno.test("docs/performance.md and README.md have the tables of the recorded measurements", async () => {
  const results = recorded as PeerResults;
  const page = await read("docs/performance.md");
  assertEquals(renderPeerPage(page, results), page);
  const readme = await read("README.md");
  assertEquals(renderComparison(readme, results), readme);
});

Deno.test("docs/performance.md has the peaks of bench/scale.md", async () => {
  const lines = (await read("bench/scale.md")).split("\n");
  const cells = (words: string) =>
    (lines.find((line) => line.includes(`| ${words} |`)) ?? "").split("|").map((cell) =>
      cell.trim()
    );
  const megabytes = (row: string, column: number) => parseInt(cells(row)[column] ?? "", 10);
  const row = /^\| ([\d,]+ x 10) \| (\d+) MB \| (\d+) MB \|$/gm;
  const peaks = [...(await read("docs/performance.md")).matchAll(row)];
  const heads = cells("1,000 x 10");
  assertEquals(peaks.length, 3);
  for (const [, size = "", signpost, nft] of peaks) {
    const column = heads.indexOf(size);
    const expected = ["signpost", "nft"].map((program) =>
      Math.max(
        ...["first sync", "restart"].map((when) =>
          megabytes(`${program}, peak of ${when}`, column)
        ),
      )
    );
    assertEquals([signpost, nft].map(Number), expected, size);
  }
});

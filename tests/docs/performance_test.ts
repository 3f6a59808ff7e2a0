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

Deno.test("docs/performance.md has the peaks of bench/scale.md", async () => {
  const lines = (await read("bench/scale.md")).split("\n");
  const cells = (row: string) => {
    const found = lines.find((line) => line.startsWith(`| ${row} |`));
    return (found ?? "").split("|").map((cell) => cell.trim());
  };
  const megabytes = (row: string, column: number) => parseInt(cells(row)[column] ?? "", 10);
  const table = (await read("docs/performance.md")).matchAll(
    /^\| ([\d,]+ x 10) \| (\d+) MB \| (\d+) MB \|$/gm,
  );
  const peaks = [...table];
  const heads = (lines.find((line) => line.includes("| 1,000 x 10 |")) ?? "").split("|").map((
    cell,
  ) => cell.trim());
  assertEquals(peaks.length, 3);
  for (const [, size = "", signpost, nft] of peaks) {
    const column = heads.indexOf(size);
    const nftPeaks = ["nft, peak of first sync", "nft, peak of restart"];
    assertEquals(
      [signpost, nft].map(Number),
      [
        megabytes("signpost, peak of restart", column),
        Math.max(...nftPeaks.map((row) => megabytes(row, column))),
      ],
      size,
    );
  }
});

/** The table of `bench/README.md`. */
import { assertEquals, assertMatch } from "@std/assert";
import { renderResults } from "../../../bench/tables.ts";
import { replaceMarked } from "../../../tools/marked.ts";

const CHANGES = {
  count: 10,
  p50: 10,
  p99: 20,
  firstFifth: 25,
  lastFifth: 24,
  pending: 0,
  operationsPerChange: 12,
  bytesPerChange: 600,
};

const TEXT = renderResults({
  sitting: "commit abc1234 on 2026-11-23, load average 0.1 before",
  machine: { kernel: "6.18", cores: 2, cpu: "x", nft: "nftables v1.0.6", deno: "2.9.6" },
  sizes: [{
    services: 1_000,
    start: { total: 400, lists: 200, firstSync: 150, nft: 100, ratio: 1.5, bytes: 6e5 },
    floor: { p50: 20, p99: 30, visible: 5 },
    steady: CHANGES,
    burst: CHANGES,
    allocated: 60_000,
    cpu: 0.08,
  }],
});

Deno.test("bench: the table says when and where it was measured", () => {
  assertMatch(TEXT, /^Measured at commit abc1234 on 2026-11-23, .*: 2 cores/);
  assertMatch(TEXT, /^ {2}first sync \/ nft alone +1\.50 x +1\.5 x$/m);
  assertMatch(TEXT, /^CPU at 10 changes\/s +8\.0 % +10 % at 10,000$/m);
});

Deno.test("bench: the page has the table between its marks, with the same rows", async () => {
  const page = await Deno.readTextFile(new URL("../../../bench/README.md", import.meta.url));
  const labels = (text: string) =>
    (/<!-- bench: begin -->[^]*?<!-- bench: end -->/.exec(text)?.[0] ?? "").split("\n").slice(4)
      .map((line) => line.replace(/(?<=\S) {2,}.*/, ""));
  const written = replaceMarked(page, { name: "bench", text: TEXT });
  assertEquals(labels(written).slice(3), labels(page).slice(3));
});

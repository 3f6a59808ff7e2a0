import { assertEquals } from "@std/assert";
import { type PeerResults, renderPeerPage } from "../../bench/peer.ts";
import recorded from "../../bench/peer.json" with { type: "json" };

Deno.test("docs/performance.md has the tables of the recorded measurements", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/performance.md", import.meta.url));
  assertEquals(renderPeerPage(page, recorded as PeerResults), page);
});

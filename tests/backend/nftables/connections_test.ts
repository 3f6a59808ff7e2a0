import { assertEquals } from "@std/assert";
import { ElementCounters } from "../../../lib/backend/nftables/connections.ts";
import type { FrontendCount } from "../../../lib/model/kernel/connections.ts";
import { realClock } from "../../support/clock_and_log.ts";

const LISTING = `table inet signpost {
	map services4 {
		typeof ip daddr . meta l4proto . tcp dport : verdict
		counter
		elements = { 10.96.0.1 . tcp . 80 counter packets 7 bytes 420 comment "shop/web" : goto pick }
	}
}
`;

/** What is told as gone by a full sync that replaces the table, or reads it back. */
async function toldBy(replaced: 0 | 1): Promise<number[]> {
  const dataplane = {
    elements: new Map([["services4", 1]]),
    replacements: 3,
    beside: <T>(read: () => Promise<T>) => read(),
  };
  const counters = new ElementCounters({
    nft: { listSet: ({ name }) => Promise.resolve(name === "services4" ? LISTING : "") },
    dataplane,
    clock: realClock,
    families: [4],
  });
  const told: FrontendCount[] = [];
  counters.onGone((last) => told.push(last));
  await counters.acrossReplacement(() => {
    dataplane.replacements += replaced;
    return Promise.resolve();
  });
  return told.map(({ connections }) => connections);
}

Deno.test("frontends are ours once a full script has replaced the table, and not where it was read back", () => {
  for (const replacements of [0, 1]) {
    const counters = new ElementCounters({
      nft: { listSet: () => Promise.resolve("") },
      dataplane: { elements: new Map(), replacements, beside: (read) => read() },
      clock: realClock,
      families: [4],
    });
    assertEquals(counters.areOurs, replacements > 0);
  }
});

Deno.test("what elements have counted is kept where the table is replaced, and not counted twice where it is read back", async () => {
  assertEquals(await toldBy(1), [7]);
  assertEquals(await toldBy(0), []);
});

import { assertEquals, assertRejects } from "@std/assert";
import { ElementCounters } from "../../../lib/backend/nftables/connections.ts";
import { lastCountIn } from "../../../lib/backend/nftables/kernel/connection_counts.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/kernel/nft.ts";
import type { FrontendCount } from "../../../lib/model/kernel/connections.ts";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { Pipeline } from "../../support/pipeline.ts";

const LISTING = `table inet signpost {
	map services4 {
		typeof ip daddr . meta l4proto . tcp dport : verdict
		counter
		elements = { 10.96.0.1 . tcp . 80 counter packets 7 bytes 420 comment "shop/web" : goto pick,
			     10.96.0.2 . tcp . 80 counter packets 5 bytes 300 comment "shop/api" : goto pick }
	}
}
`;

/**
 * What is told as gone by a full sync that replaces the table, or reads it back.
 *
 * @param line of `nft monitor` that comes meanwhile
 */
async function toldBy(replaced: 0 | 1, line = ""): Promise<number[]> {
  const dataplane = {
    elements: new Map([["services4", 1]]),
    replacements: 3,
    hasWritten: true,
    beside: <T>(read: () => Promise<T>) => read(),
  };
  const counters = new ElementCounters({
    nft: { listSet: ({ name }) => Promise.resolve(name === "services4" ? LISTING : "") },
    dataplane,
    clock: realClock,
  });
  const told: FrontendCount[] = [];
  counters.onGone((last) => told.push(last));
  await counters.acrossReplacement(() => {
    const last = lastCountIn(line);
    if (last) counters.tell(last);
    dataplane.replacements += replaced;
    return Promise.resolve();
  });
  return told.map(({ connections }) => connections);
}

Deno.test("frontends are ours once the kernel has taken a full script, and not where it took none", async () => {
  const result = { code: 1, stdout: "", stderr: "Error: No buffer space available" };
  const nft = new Nft({ run: () => Promise.resolve(result) });
  const dataplane = new NftablesDataplane(nft);
  const counters = new ElementCounters({ nft, dataplane, clock: realClock });
  const { desired } = new Pipeline();
  await assertRejects(() => dataplane.apply(dataplane.full(desired)), ApplyError);
  assertEquals(counters.areOurs, false);
  result.code = 0;
  await dataplane.apply(dataplane.full(desired));
  assertEquals(counters.areOurs, true);
});

Deno.test("what elements have counted is kept where the table is replaced, and not counted twice where it is read back", async () => {
  assertEquals(await toldBy(1), [7, 5]);
  assertEquals(await toldBy(0), []);
});

Deno.test("what an element had counted that went before the table is replaced is not counted twice", async () => {
  const line = "delete element inet signpost services4 " +
    '{ 10.96.0.1 . tcp . 80 counter packets 9 bytes 540 comment "shop/web" : goto pick }';
  assertEquals(await toldBy(1, line), [9, 5]);
});

import { assertEquals } from "@std/assert";
import { Counts } from "../../../lib/backend/nftables/delta.ts";
import { FullScript, writePortions } from "../../../lib/backend/nftables/write.ts";
import type { Progress } from "../../../lib/model/kernel/dataplane.ts";
import { ManualClock, MemoryLogger } from "../../support/clock_and_log.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { service } from "../../support/cluster.ts";

/** Writes five portions, each of which takes nft so many milliseconds. */
async function write(milliseconds: number) {
  const pipeline = new Pipeline();
  pipeline.load(
    Array.from({ length: 4 }, (_, i) => service({ name: `s${i}`, clusterIP: `10.96.0.${i}` })),
  );
  const [clock, logger, told] = [new ManualClock(), new MemoryLogger(), [] as Progress[]];
  await writePortions(new FullScript(pipeline.desired), {
    nft: {
      commitAfter: async (before) => {
        await before;
        clock.pass(milliseconds);
      },
    },
    clock: { monotonic: () => clock.monotonic(), sleep: () => Promise.resolve() },
    logger,
    weight: 1,
    counts: new Counts(),
    prologue: () => Promise.resolve(""),
    checkpoint: () => {},
    onProgress: (progress) => told.push(progress),
  });
  return { told: told.map(({ done, of }) => `${done} of ${of}`), log: logger.at("info") };
}

Deno.test("a first sync that takes more than 10 s says in the log, once, how far it is", async () => {
  const { told, log } = await write(6_000);
  assertEquals(told, ["0 of 5", "1 of 5", "2 of 5", "3 of 5", "4 of 5", "5 of 5"]);
  assertEquals(log.length, 1);
  assertEquals(/portions.*2 of 5/.test(log.join()), true, log.join());
  assertEquals((await write(1_000)).log, []);
});

import { assertEquals, fail } from "@std/assert";
import fc from "fast-check";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { cluster } from "../../support/arbitrary.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { listTable } from "../../support/nft_table.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

const CONFIGURATION = {
  clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"],
  nodePortAddresses: ["primary", "localhost"],
};

/** Elements of one part. */
const partWeight = fc.constantFrom(undefined, undefined, undefined, 10);
/** Elements of one step. */
const stepShare = fc.constantFrom(undefined, 1, 4);

Deno.test("full(A) and then delta(A to B) leave the kernel as full(B) does", async () => {
  await using kernel = await Kernel.create();
  const fullOf = async (objects: readonly ApiObject[], weight?: number, share?: number) => {
    const pipeline = new Pipeline({ configuration: CONFIGURATION });
    pipeline.load(objects);
    const options = {
      ...weight !== undefined && { weight, clock: realClock },
      ...share !== undefined && { share },
    };
    const dataplane = new NftablesDataplane(kernel.nft, options);
    await dataplane.apply(dataplane.full(pipeline.desired));
    return { pipeline, dataplane };
  };

  await fc.assert(
    fc.asyncProperty(cluster, cluster, cluster, partWeight, stepShare, async (...inputs) => {
      const [a, b, c, weight, share] = inputs;
      const { pipeline, dataplane } = await fullOf(a, weight, share);
      const { desired, cache } = pipeline;
      const step = async () => {
        const { change, unfinished } = desired.update(cache, cache.takeDirty(), share);
        cache.putBack(unfinished);
        const script = atOnce(dataplane.changing(change, desired));
        await dataplane.apply(script ?? fail("a full sync is needed"));
      };
      for (const next of [b, c]) {
        pipeline.deliver(next);
        await step();
      }
      while (cache.isDirty || dataplane.isUnfinished) await step();
      const afterSteps = await listTable(kernel.prefix);
      await kernel.script("flush ruleset");
      await fullOf(c);
      assertEquals(afterSteps, await listTable(kernel.prefix));
    }),
    { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 60) },
  );
});

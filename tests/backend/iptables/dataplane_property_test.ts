import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { IptablesDataplane } from "../../../lib/backend/iptables/dataplane.ts";
import { cluster } from "../../support/arbitrary.ts";
import { SILENT_RUNNER } from "../../support/modes.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel, newDataplane, VARIANTS } from "./kernel.ts";

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };

async function fullOf(
  kernel: Pick<Kernel, "runner" | "variant">,
  objects: readonly ApiObject[],
) {
  const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
  const dataplane = newDataplane(kernel);
  await pipeline.apply(dataplane, objects);
  return { pipeline, dataplane };
}

Deno.test("after partial syncs the number of rules is that of a full sync", async () => {
  const totals = ({ ruleCounts }: IptablesDataplane) =>
    [...ruleCounts].map(({ family, table, total }) => `${family} ${table} ${total}`);
  await fc.assert(
    fc.asyncProperty(cluster, cluster, cluster, async (a, b, c) => {
      const { pipeline, dataplane } = await fullOf({ runner: SILENT_RUNNER, variant: "" }, a);
      for (const next of [b, c]) await dataplane.apply(pipeline.step(dataplane, next));
      const stepped = totals(dataplane);
      await dataplane.apply(dataplane.full(pipeline.desired));
      assertEquals(stepped, totals(dataplane));
    }),
    { numRuns: 100 },
  );
});

for (const variant of VARIANTS) {
  Deno.test(`full(A) and then partial syncs to C leave iptables${variant} as full(C) does`, async () => {
    await using kernel = await Kernel.create(variant);
    await fc.assert(
      fc.asyncProperty(cluster, cluster, cluster, async (a, b, c) => {
        const { pipeline, dataplane } = await fullOf(kernel, a);
        for (const next of [b, c]) await dataplane.apply(pipeline.step(dataplane, next));
        const afterSteps = await kernel.state();
        await kernel.clear();
        await fullOf(kernel, c);
        assertEquals(afterSteps, await kernel.state());
      }),
      { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 40) },
    );
  });

  Deno.test(`iptables${variant}: full(B) over A leaves what full(B) leaves on an empty kernel`, async () => {
    await using kernel = await Kernel.create(variant);
    await fc.assert(
      fc.asyncProperty(cluster, cluster, async (a, b) => {
        await fullOf(kernel, a);
        await fullOf(kernel, b);
        const over = await kernel.state();
        await kernel.clear();
        await fullOf(kernel, b);
        assertEquals(over, await kernel.state());
      }),
      { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 20) },
    );
  });
}

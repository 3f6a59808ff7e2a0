import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { IptablesDataplane } from "../../../lib/backend/iptables/dataplane.ts";
import { FAMILIES } from "../../../lib/model/values/address.ts";
import { cluster } from "../../support/arbitrary.ts";
import { SILENT_RUNNER } from "../../support/modes.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { Kernel, VARIANTS } from "./kernel.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };

function newDataplane(kernel: Pick<Kernel, "runner" | "variant">): IptablesDataplane {
  return new IptablesDataplane({
    runner: kernel.runner,
    iptables: { variant: kernel.variant, families: FAMILIES, tcpBeLiberal: false },
    routeLocalnet: () => Promise.resolve(),
  });
}

async function fullOf(kernel: Kernel, objects: readonly ApiObject[]): Promise<Pipeline> {
  const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
  pipeline.load(objects);
  const dataplane = newDataplane(kernel);
  await dataplane.apply(dataplane.full(pipeline.desired));
  return pipeline;
}

Deno.test("after partial syncs the number of rules is that of a full sync", async () => {
  const totals = ({ ruleCounts }: IptablesDataplane) =>
    [...ruleCounts].map(({ family, table, total }) => `${family} ${table} ${total}`);
  await fc.assert(
    fc.asyncProperty(cluster, cluster, cluster, async (a, b, c) => {
      const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
      pipeline.load(a);
      const dataplane = newDataplane({ runner: SILENT_RUNNER, variant: "" });
      await dataplane.apply(dataplane.full(pipeline.desired));
      for (const next of [b, c]) {
        const { change } = pipeline.load(next);
        const step = atOnce(dataplane.changing(change, pipeline.desired));
        if (step) await dataplane.apply(step);
      }
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
    const dataplane = newDataplane(kernel);
    await fc.assert(
      fc.asyncProperty(cluster, cluster, cluster, async (a, b, c) => {
        const pipeline = await fullOf(kernel, a);
        for (const next of [b, c]) {
          const step = pipeline.step(dataplane, next);
          await dataplane.apply(step);
        }
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

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { ApplyError } from "../../../../lib/model/dataplane.ts";
import { NftablesDataplane } from "../../../../lib/backend/nftables/dataplane.ts";
import { ElementCheck } from "../../../../lib/backend/nftables/drift/element_check.ts";
import type { Nft } from "../../../../lib/backend/nftables/kernel/nft.ts";
import { SystemClock } from "../../../../lib/system/clock.ts";
import { cluster } from "../../../support/arbitrary.ts";
import { type ApiObject, Pipeline } from "../../../support/pipeline.ts";
import { Kernel } from "../kernel.ts";

/** Some Services of two endpoints each. */
function services(count: number): ApiObject[] {
  return Array.from({ length: count }, (_, i) => [
    {
      kind: "Service",
      metadata: { name: `s${i}`, namespace: "shop" },
      spec: { clusterIP: `10.96.${i >> 8}.${i & 255}`, ports: [{ port: 80 }] },
    },
    {
      kind: "EndpointSlice",
      metadata: {
        name: `s${i}-1`,
        namespace: "shop",
        labels: { "kubernetes.io/service-name": `s${i}` },
      },
      addressType: "IPv4",
      ports: [{ port: 8080 }],
      endpoints: [1, 2].map((host) => ({ addresses: [`10.${host}.${i >> 8}.${i & 255}`] })),
    },
  ]).flat();
}

/** Objects in a kernel, and a check of its elements. */
async function checkOf(kernel: Kernel, objects: readonly ApiObject[]): Promise<ElementCheck> {
  const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.0.0.0/8"] } });
  pipeline.load(objects);
  const { nft } = kernel;
  const { desired } = pipeline;
  const dataplane = new NftablesDataplane(nft);
  await dataplane.apply(dataplane.full(desired));
  return new ElementCheck({ nft, dataplane, desired, clock: new SystemClock() });
}

Deno.test("no element of any cluster is missing when nobody took one away", async () => {
  await using kernel = await Kernel.create();
  await fc.assert(
    fc.asyncProperty(cluster, async (objects) => {
      const check = await checkOf(kernel, objects);
      assertEquals(await check.look(), undefined);
    }),
    { numRuns: 20 },
  );
});

Deno.test("an element that somebody deletes is missed when its Service has its turn, and the check changes nothing", async () => {
  await using kernel = await Kernel.create();
  const check = await checkOf(kernel, services(450));
  const round = async () => [await check.look(), await check.look(), await check.look()];
  assertEquals(await round(), [undefined, undefined, undefined]);
  await kernel.script("delete element inet signpost services4 { 10.96.1.44 . tcp . 80 }\n");
  const missing = "elements of shop/s200 to shop/s399";
  assertEquals(await round(), [undefined, missing, undefined]);
  assertEquals(await round(), [undefined, missing, undefined]);
});

/** A check whose `nft` fails; `during` runs meanwhile. */
function failing(
  failure: ApplyError["failure"],
  during: (dataplane: { steps: number }) => void = () => {},
): ElementCheck {
  const dataplane = { steps: 0, isBusy: false, presence: () => "delete element …" };
  const nft: Pick<Nft, "check"> = {
    check: () => {
      during(dataplane);
      return Promise.reject(new ApplyError(failure, "no"));
    },
  };
  const pipeline = new Pipeline();
  pipeline.load(services(1));
  return new ElementCheck({
    nft,
    dataplane,
    desired: pipeline.desired,
    clock: { now: () => 0, monotonic: () => 0, sleep: () => Promise.resolve() },
  });
}

Deno.test("what is missing while a sync runs may be what the sync does", async () => {
  assertEquals(await failing("conflict").look(), "elements of shop/s0 to shop/s0");
  assertEquals(await failing("conflict", (dataplane) => dataplane.steps += 2).look(), undefined);
});

Deno.test("a check that fails for another reason tells nothing", async () => {
  for (const failure of ["busy", "not-permitted", "unknown"] as const) {
    assertEquals(await failing(failure).look(), undefined);
  }
});

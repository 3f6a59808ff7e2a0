import { assertEquals } from "@std/assert";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { nftablesRules, readPorts } from "../../../lib/backend/nftables/kernel_rules.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";
import { service as buildService, slice } from "../../support/cluster.ts";

const SLICE = "endpoints-tcp4";

function objects(spec: object = {}) {
  const clusterIP = "10.96.0.10";
  const service = { clusterIP, clusterIPs: [clusterIP], ingress: ["192.0.2.10"], ...spec };
  return [
    buildService({ namespace: "shop", ...service }),
    slice({ namespace: "shop", endpoints: ["10.244.0.1", "10.244.0.2"] }),
  ];
}

/** A kernel that holds a Service, and what it is asked about it. */
async function holding(kernel: Kernel, spec?: object) {
  const pipeline = new Pipeline();
  await pipeline.apply(new NftablesDataplane(kernel.nft), objects(spec));
  const { node, services } = pipeline.desired;
  const ports = services.get("shop/web") ?? [];
  return { node, ports, held: () => readPorts(kernel.nft, { node, ports }) };
}

Deno.test("the elements of a Service are read without a listing", async () => {
  await using kernel = await Kernel.create();
  const { node, ports, held } = await holding(kernel);
  const entries = nftablesRules(await held()).entries(ports, node);
  assertEquals(entries, nftablesRules(await kernel.contents()).entries(ports, node));
  assertEquals(entries.length > 5 && entries.every(({ state }) => state === "same"), true);
});

Deno.test("an element that is missing or has other data asks for a listing", async () => {
  await using kernel = await Kernel.create();
  const { held } = await holding(kernel);
  const slot = `element inet signpost ${SLICE} { 10.96.0.10 . 80 . 1 : 10.244.0.2 . 8080 }`;
  await kernel.script(`delete ${slot}\n`);
  assertEquals(await held(), undefined);
  await kernel.script(`add ${slot.replace("0.2 . 8080", "0.9 . 8080")}\n`);
  assertEquals(await held(), undefined);
});

Deno.test("rules that differ are seen without a listing", async () => {
  await using kernel = await Kernel.create();
  const { node, ports, held } = await holding(kernel);
  await kernel.script("flush chain inet signpost pick-endpoints4-tcp-2\n");
  const entries = nftablesRules(await held()).entries(ports, node);
  assertEquals(
    entries.filter(({ state }) => state !== "same").map((each) => each.in),
    ["chain pick-endpoints4-tcp-2", "chain pick-endpoints4-tcp-2"],
  );
});

Deno.test("session affinity and source ranges ask for a listing", async () => {
  const loadBalancer = { type: "LoadBalancer", loadBalancerSourceRanges: ["198.51.100.0/24"] };
  for (const spec of [{ sessionAffinity: "ClientIP" }, loadBalancer]) {
    await using kernel = await Kernel.create();
    const { held } = await holding(kernel, spec);
    assertEquals(await held(), undefined);
  }
});

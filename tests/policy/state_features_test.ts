import { assertEquals } from "@std/assert";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../lib/backend/nftables/nft.ts";
import type { Feature } from "../../lib/model/kernel/traits.ts";
import { SILENT_RUNNER } from "../support/modes.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { type Fields, service as buildService } from "../support/cluster.ts";

function service(name: string, spec: Fields, lb: string): ApiObject {
  const ports = [{ name: "http", port: 80 }];
  return buildService({
    namespace: "shop",
    name,
    type: "LoadBalancer",
    ports,
    ingress: [lb],
    ...spec,
  });
}

const PLAIN = service("plain", { clusterIP: "10.96.0.1" }, "192.0.2.1");
const RANGED = service("ranged", {
  clusterIP: "10.96.0.2",
  loadBalancerSourceRanges: ["198.51.100.0/24"],
}, "192.0.2.2");
const STICKY = service(
  "sticky",
  { clusterIP: "10.96.0.3", sessionAffinity: "ClientIP" },
  "192.0.2.3",
);

function refusing(...features: readonly Feature[]): Pipeline {
  const refusal = (feature: Feature) => [feature, `refuses ${feature}`] as const;
  return new Pipeline({ refusedFeatures: new Map(features.map(refusal)) });
}

function scriptOf(pipeline: Pipeline): string {
  return new NftablesDataplane(new Nft(SILENT_RUNNER)).full(pipeline.desired).text;
}

Deno.test("only load-balancer IPs with ranges get no rules if ranges are refused", () => {
  const pipeline = refusing("source-ranges");
  const { unsupported } = pipeline.load([PLAIN, RANGED, STICKY]);
  assertEquals(unsupported, [
    { service: "shop/ranged", feature: "source-ranges", refusal: "refuses source-ranges" },
  ]);
  const script = scriptOf(pipeline);
  for (const address of ["10.96.0.1", "192.0.2.1", "10.96.0.2", "10.96.0.3", "192.0.2.3"]) {
    assertEquals(script.includes(`${address} . tcp . 80`), true, address);
  }
  assertEquals(/192\.0\.2\.2\b|source-ranges|firewall/.exec(script), null);
});

Deno.test("where session affinity is refused, the Services that ask for it get no rules", () => {
  const pipeline = refusing("session-affinity");
  const { unsupported } = pipeline.load([PLAIN, RANGED, STICKY]);
  assertEquals(unsupported.map(({ service }) => service), ["shop/sticky"]);
  const script = scriptOf(pipeline);
  assertEquals(script.includes("10.96.0.3"), false);
  assertEquals(script.includes("source-ranges-tcp4"), true);
});

Deno.test("a Service that no longer needs what is refused gets its rules, in a partial step", () => {
  const pipeline = refusing("source-ranges");
  pipeline.load([RANGED]);
  assertEquals(pipeline.desired.unsupported().length, 1);
  const { unsupported, change } = pipeline.load([
    service("ranged", { clusterIP: "10.96.0.2" }, "192.0.2.2"),
  ]);
  assertEquals([unsupported, pipeline.desired.unsupported()], [[], []]);
  assertEquals(change.services.get("shop/ranged")?.after[0]?.loadBalancerIPs, ["192.0.2.2"]);
  pipeline.load([RANGED]);
  pipeline.load([]);
  assertEquals(pipeline.desired.unsupported(), []);
});

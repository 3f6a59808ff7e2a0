import { assertEquals } from "@std/assert";
import { Pipeline } from "../support/pipeline.ts";
import { readExamples } from "./examples.ts";

Deno.test("the examples are taken as they are, without a refusal and without a conflict", async () => {
  const { refused, conflicts } = new Pipeline().load(await readExamples());
  assertEquals({ refused, conflicts }, { refused: [], conflicts: [] });
});

Deno.test("the examples have a Service of every kind", async () => {
  const specs = (await readExamples()).filter(({ kind }) => kind === "Service")
    .map((service) => service["spec"] as Record<string, unknown>);
  const values = (field: string) => new Set(specs.map((spec) => spec[field]));
  const protocols = specs.flatMap((spec) =>
    ((spec["ports"] ?? []) as { protocol: string }[]).map(({ protocol }) => protocol)
  );
  assertEquals(
    {
      types: values("type").isSupersetOf(
        new Set(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
      ),
      headless: values("clusterIP").has("None"),
      internalLocal: values("internalTrafficPolicy").has("Local"),
      externalLocal: values("externalTrafficPolicy").has("Local"),
      affinity: values("sessionAffinity").has("ClientIP"),
      externalIPs: specs.some((spec) => "externalIPs" in spec),
      sourceRanges: specs.some((spec) => "loadBalancerSourceRanges" in spec),
      dualStack: specs.some(({ clusterIPs }) => Array.isArray(clusterIPs) && clusterIPs.length > 1),
      protocols: [...new Set(protocols)].sort(),
    },
    {
      types: true,
      headless: true,
      internalLocal: true,
      externalLocal: true,
      affinity: true,
      externalIPs: true,
      sourceRanges: true,
      dualStack: true,
      protocols: ["SCTP", "TCP", "UDP"],
    },
  );
});

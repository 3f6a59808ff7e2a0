import { ADDRESSES, type Addresses, type Manifest, service, slice } from "./cluster.ts";
import { applyOnce, createCluster } from "./case.ts";
import { assertFlows, nodePortFlow } from "./flow.ts";

const FAMILIES: readonly Addresses[] = [ADDRESSES[4], ADDRESSES[6]];

/** A Service of both families with all kinds of addresses. */
function dualStackService(): Manifest {
  return service(ADDRESSES[4], {
    spec: {
      type: "LoadBalancer",
      ipFamilyPolicy: "RequireDualStack",
      ipFamilies: ["IPv4", "IPv6"],
      clusterIPs: FAMILIES.map((a) => a.clusterIP),
      externalIPs: FAMILIES.map((a) => a.externalIP),
      loadBalancerSourceRanges: FAMILIES.map((a) => a.clientCIDR),
    },
    ingress: FAMILIES.map((a) => ({ ip: a.loadBalancer })),
  });
}

Deno.test("a dual-stack Service has both families' addresses from one script", async () => {
  await using network = await createCluster();
  await applyOnce(network, {
    a: ADDRESSES[4],
    objects: [
      dualStackService(),
      slice(ADDRESSES[4], ["local1", "remote1"], { name: "web-4" }),
      slice(ADDRESSES[6], ["local2", "remote2"], { name: "web-6" }),
    ],
  });
  await assertFlows(
    network,
    FAMILIES.flatMap((a) => {
      const reaches = a.family === 4
        ? ["local1", "remote1"] as const
        : ["local2", "remote2"] as const;
      const masqueraded = true;
      return [
        { from: "pod", to: a.clusterIP, reaches },
        { from: "client", to: a.externalIP, reaches, masqueraded },
        { from: "client", to: a.loadBalancer, reaches, masqueraded },
        { from: "client2", to: a.loadBalancer, reaches: "drop" },
        nodePortFlow(a, { from: "client", reaches, masqueraded }),
      ] as const;
    }),
  );
});

Deno.test("a dual-stack Service with endpoints in one family rejects in the other", async () => {
  await using network = await createCluster();
  await applyOnce(network, {
    a: ADDRESSES[4],
    objects: [dualStackService(), slice(ADDRESSES[6], ["local1"], { name: "web-6" })],
  });
  await assertFlows(network, [
    { from: "pod", to: ADDRESSES[4].clusterIP, reaches: "reject" },
    { from: "pod", to: ADDRESSES[6].clusterIP, reaches: ["local1"] },
    nodePortFlow(ADDRESSES[4], { from: "client", reaches: "reject" }),
  ]);
});

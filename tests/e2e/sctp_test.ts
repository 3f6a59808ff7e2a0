import { FAMILIES } from "../../lib/model/values/address.ts";
import { ADDRESSES, NODE_PORT, PORT, service, slice, TARGET_PORT2 } from "./cluster.ts";
import { applyOnce, createCluster } from "./case.ts";
import { assertFlows, nodePortFlow } from "./flow.ts";

for (const family of FAMILIES) {
  Deno.test(`SCTP is served as TCP and UDP are (IPv${family})`, async () => {
    const a = ADDRESSES[family];
    const ports = [{ name: "sip", protocol: "SCTP", port: PORT, nodePort: NODE_PORT }];
    const reaches = ["local1", "remote1"] as const;
    const sctp = { protocols: ["sctp"], targetPort: TARGET_PORT2 } as const;
    await using network = await createCluster();
    network.hearSctp();
    await applyOnce(network, {
      a,
      objects: [
        service(a, {
          spec: {
            type: "LoadBalancer",
            ports,
            externalTrafficPolicy: "Local",
            loadBalancerSourceRanges: [a.clientCIDR],
          },
          ingress: [{ ip: a.loadBalancer }],
        }),
        slice(a, reaches, { ports: [{ name: "sip", protocol: "SCTP", port: TARGET_PORT2 }] }),
      ],
    });
    await assertFlows(network, [
      { from: "pod", to: a.clusterIP, ...sctp, reaches },
      { from: "client", to: a.clusterIP, ...sctp, reaches, masqueraded: true },
      { from: "client", to: a.loadBalancer, ...sctp, reaches: ["local1"] },
      { from: "client2", to: a.loadBalancer, ...sctp, reaches: "drop" },
      nodePortFlow(a, { from: "client2", ...sctp, reaches: ["local1"] }),
      { from: "pod", to: a.clusterIP, ...sctp, port: 81, reaches: "reject" },
      { from: "pod", to: a.clusterIP, protocols: ["tcp", "udp"], reaches: "reject" },
      { from: "client", to: a.externalIP, ...sctp, reaches: "world" },
    ]);
  });
}

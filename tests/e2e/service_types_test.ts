import { NODE_PORT, service, slice, TARGET_PORT, TARGET_PORT2 } from "./cluster.ts";
import { nodePortFlow } from "./flow.ts";
import { testCase } from "./case.ts";

testCase("a cluster IP is balanced over all endpoints, for pods, the node and clients", (a) => {
  const reaches = ["local1", "remote1", "remote2"] as const;
  return {
    objects: [service(a), slice(a, reaches)],
    flows: [
      { from: "pod", to: a.clusterIP, reaches },
      { from: "node", to: a.clusterIP, reaches, masqueraded: true },
      { from: "client", to: a.clusterIP, reaches, masqueraded: true },
    ],
  };
});

testCase(
  "a node port leads to all endpoints, masqueraded",
  (a) => {
    const reaches = ["local1", "remote1"] as const;
    return {
      objects: [service(a, { spec: { type: "NodePort" } }), slice(a, reaches)],
      flows: [
        { from: "pod", to: a.clusterIP, reaches },
        ...(["pod", "node", "client"] as const).map((from) =>
          nodePortFlow(a, { from, reaches, masqueraded: true })
        ),
      ],
    };
  },
);

testCase("every ingress IP of a load balancer is served, but those of ipMode Proxy", (a) => {
  const reaches = ["local1", "remote1"] as const;
  const ingress = [
    { ip: a.loadBalancer, ipMode: "VIP" },
    { ip: a.loadBalancer2 },
    { ip: a.externalIP, ipMode: "Proxy" },
    { hostname: "lb.example.com" },
  ];
  return {
    objects: [service(a, { spec: { type: "LoadBalancer" }, ingress }), slice(a, reaches)],
    flows: [
      ...[a.loadBalancer, a.loadBalancer2].flatMap((to) =>
        (["pod", "node", "client"] as const).map((from) => ({
          from,
          to,
          reaches,
          masqueraded: true,
        }))
      ),
      { from: "client", to: a.externalIP, reaches: "world" },
      nodePortFlow(a, { from: "client", reaches, masqueraded: true }),
    ],
  };
});

testCase("external IPs are served, masqueraded", (a) => {
  const reaches = ["local1", "remote1"] as const;
  return {
    objects: [service(a, { spec: { externalIPs: [a.externalIP] } }), slice(a, reaches)],
    flows: (["pod", "node", "client"] as const).map((from) => ({
      from,
      to: a.externalIP,
      reaches,
      masqueraded: true,
    })),
  };
});

testCase("one port number and one node port lead to different targets over TCP and UDP", (a) => {
  const ports = [
    { name: "web", protocol: "TCP", port: 80, nodePort: NODE_PORT, targetPort: TARGET_PORT },
    { name: "dns", protocol: "UDP", port: 80, nodePort: NODE_PORT, targetPort: TARGET_PORT2 },
  ];
  const targets = [
    { name: "web", protocol: "TCP", port: TARGET_PORT },
    { name: "dns", protocol: "UDP", port: TARGET_PORT2 },
  ];
  const tcp = { protocols: ["tcp"], reaches: ["local1"], targetPort: TARGET_PORT } as const;
  const udp = { protocols: ["udp"], reaches: ["local1"], targetPort: TARGET_PORT2 } as const;
  return {
    objects: [
      service(a, { spec: { type: "NodePort", ports } }),
      slice(a, ["local1"], { ports: targets }),
    ],
    flows: [
      { from: "pod", to: a.clusterIP, ...tcp },
      { from: "pod", to: a.clusterIP, ...udp },
      nodePortFlow(a, { from: "client", ...tcp, masqueraded: true }),
      nodePortFlow(a, { from: "client", ...udp, masqueraded: true }),
    ],
  };
});

testCase("a port of one protocol says nothing of the other", (a) => ({
  objects: [
    service(a, { spec: { ports: [{ name: "tcp", protocol: "TCP", port: 80 }] } }),
    slice(a, ["local1"]),
  ],
  flows: [
    { from: "pod", to: a.clusterIP, protocols: ["tcp"], reaches: ["local1"] },
    { from: "pod", to: a.clusterIP, protocols: ["udp"], reaches: "reject" },
  ],
}));

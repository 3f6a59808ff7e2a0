/** A small cluster with every kind of rule. */
import type { ApiObject } from "../../support/api_store.ts";
import {
  node,
  service as buildService,
  type ServiceFields,
  slice as buildSlice,
} from "../../support/cluster.ts";

const http = { name: "http", port: 80, protocol: "TCP" };

function service(name: string, number: number, spec: ServiceFields): ApiObject {
  const clusterIPs = [`10.96.0.${number}`, `fd00:10:96::${number}`];
  const fields = { type: "ClusterIP", clusterIP: clusterIPs[0], clusterIPs, ports: [http] };
  return buildService({ name, ...fields, ...spec });
}

function slice(service: string, family: 4 | 6, endpoints: readonly string[]): ApiObject {
  const ports = [{ name: "http", port: 8080, protocol: "TCP" }];
  return buildSlice({ service, name: `${service}-${family}`, ports, endpoints });
}

/** Node, Services and slices. */
export const EXAMPLE: readonly ApiObject[] = [
  node({ addresses: ["192.168.0.2"] }),
  service("cluster", 1, {}),
  slice("cluster", 4, ["10.244.0.1@node-1", "10.244.1.1@node-2", "10.244.1.2@node-2"]),
  slice("cluster", 6, ["fd00:10:244::1@node-1", "fd00:10:244:1::1@node-2"]),
  service("sticky", 2, { sessionAffinity: "ClientIP" }),
  slice("sticky", 4, ["10.244.0.1@node-1", "10.244.1.1@node-2"]),
  service("local", 3, {
    type: "LoadBalancer",
    internalTrafficPolicy: "Local",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 32000,
    ports: [{ ...http, nodePort: 30080 }],
    ingress: ["203.0.113.1"],
    externalIPs: ["198.51.100.1"],
  }),
  slice("local", 4, ["10.244.0.1@node-1", "10.244.1.1@node-2"]),
  slice("local", 6, ["fd00:10:244:1::1@node-2"]),
  service("guarded", 4, {
    type: "LoadBalancer",
    ports: [{ ...http, nodePort: 30081 }],
    ingress: ["203.0.113.2", "2001:db8:f::2"],
    loadBalancerSourceRanges: ["192.0.2.0/24", "2001:db8:1::/48"],
  }),
  slice("guarded", 4, ["10.244.1.1@node-2"]),
  slice("guarded", 6, ["fd00:10:244:1::1@node-2"]),
  service("empty", 5, { type: "NodePort", ports: [{ ...http, nodePort: 30082 }] }),
];

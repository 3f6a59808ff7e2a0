/**
 * Objects that are small to send and may be large to work out, by the dimension in which they grow.
 */
import type { ApiObject } from "../support/api_store.ts";
import { type Fields, service as buildService, slice as buildSlice } from "../support/cluster.ts";

const range = (length: number) => Array.from({ length }, (_, i) => i);
const address = (net: number, i: number) =>
  `${net}.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;
const portOf = (i: number) => ({ name: `p${i}`, protocol: "TCP", port: (i % 65_535) + 1 });

function service(name: string, spec: Fields, namespace = "evil"): ApiObject {
  return buildService({ namespace, name, clusterIP: undefined, ports: [portOf(0)], ...spec });
}

function slice(
  service: string,
  fields: Fields,
  { namespace = "evil", number = 0 } = {},
): ApiObject {
  const name = `${service}-${number}`;
  const some = { ports: [portOf(0)], endpoints: [{ addresses: ["10.244.1.1"] }] };
  return buildSlice({ namespace, service, name, ...some, ...fields });
}

const CLUSTER_IP = { clusterIP: "10.96.66.1" };

/** Each kind makes objects for a size; their number or length grows with it. */
export const COSTLY_KINDS: Readonly<Record<string, (size: number) => ApiObject[]>> = {
  "Service ports and slice ports": (size) => [
    service("s", { ...CLUSTER_IP, ports: range(size).map(portOf) }),
    slice("s", { ports: range(size).map(portOf) }),
  ],
  "slice ports without endpoints": (size) => [
    service("s", { ...CLUSTER_IP, ports: range(size).map(portOf) }),
    ...range(10).map((number) =>
      slice("s", { ports: range(size).map(portOf), endpoints: [] }, { number })
    ),
  ],
  "slice ports of one name": (size) => [
    service("s", CLUSTER_IP),
    slice("s", {
      ports: range(size).map((i) => ({ ...portOf(i), name: "p0" })),
      endpoints: range(100).map((i) => ({ addresses: [address(10, i)] })),
    }),
  ],
  "slices": (size) => [
    service("s", CLUSTER_IP),
    ...range(size).map((number) =>
      slice("s", { endpoints: [{ addresses: [address(10, number)] }] }, { number })
    ),
  ],
  "endpoints": (size) => [
    service("s", CLUSTER_IP),
    ...range(Math.ceil(size / 100)).map((number) =>
      slice("s", {
        endpoints: range(100).map((i) => ({ addresses: [address(10, number * 100 + i)] })),
      }, { number })
    ),
  ],
  "external IPs": (size) => [
    service("s", { ...CLUSTER_IP, externalIPs: range(size).map((i) => address(192, i)) }),
    slice("s", {}),
  ],
  "source ranges": (size) => [
    {
      ...service("s", {
        ...CLUSTER_IP,
        type: "LoadBalancer",
        loadBalancerSourceRanges: range(size).map((i) => `${address(11, 2 * i)}/32`),
      }),
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.66" }] } },
    },
    slice("s", {}),
  ],
  "conflicts": (size) =>
    ["s", "t"].map((name, i) =>
      service(name, {
        clusterIP: `10.96.66.${i + 1}`,
        externalIPs: range(size).map((i) => address(192, i)),
      })
    ),
  "chains of session affinity": (size) => [
    service("s", { ...CLUSTER_IP, sessionAffinity: "ClientIP" }),
    slice("s", { endpoints: range(size).map((i) => ({ addresses: [address(10, i)] })) }),
  ],
  "small namespaces": (size) =>
    range(size).flatMap((i) => {
      const namespace = `n${i}`;
      return [
        service("s", { clusterIP: address(10, 0x600000 + i) }, namespace),
        slice("s", {}, { namespace }),
      ];
    }),
};

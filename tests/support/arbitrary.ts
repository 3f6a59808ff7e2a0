/** Random clusters for property tests: few names, addresses and ports, so that they meet often. */
import fc from "fast-check";
import { type ApiObject, NODE_NAME } from "./pipeline.ts";
import { node, service as buildService, slice as buildSlice } from "./cluster.ts";
import { wordsOf } from "./table.ts";

const POD_ADDRESSES = {
  4: ["10.244.0.1", "10.244.0.2", "10.244.1.1", "10.244.1.2", "10.244.2.1"],
  6: ["fd00:10:244::1", "fd00:10:244::2", "fd00:10:244:1::1"],
} as const;
const NODES = [NODE_NAME, "node-2", undefined];
const EXTERNAL = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
const RANGES = wordsOf(
  "198.51.100.0/25 198.51.100.128/25 203.0.113.7/32 10.0.0.0/8 2001:db8:1::/64",
);
const PORT_NAMES = ["", "http", "dns"];

const policy = fc.constantFrom("Cluster", "Local");
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const ports = fc.uniqueArray(
  fc.record({
    name: fc.constantFrom(...PORT_NAMES),
    protocol: fc.constantFrom("TCP", "UDP", "SCTP"),
    port: fc.constantFrom(80, 443, 53),
    nodePort: fc.constantFrom(0, 0, 30080, 30053),
  }),
  { minLength: 1, maxLength: 3, selector: ({ name }) => name },
);

/** A Service; its cluster IPs follow from its number, so that they are its own as the API has it. */
function service(number: number): fc.Arbitrary<ApiObject> {
  return fc.record({
    type: fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer"),
    families: fc.constantFrom([4], [6], [4, 6]),
    externalIPs: fc.uniqueArray(fc.constantFrom(...EXTERNAL), { maxLength: 2 }),
    ingress: fc.uniqueArray(fc.constantFrom(...EXTERNAL), { maxLength: 2 }),
    loadBalancerSourceRanges: fc.uniqueArray(fc.constantFrom(...RANGES), { maxLength: 3 }),
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
    sessionAffinity: fc.constantFrom("None", "None", "ClientIP"),
    scheduler: fc.constantFrom("", "", "round-robin", "consistent-hash"),
    hash: fc.constantFrom("", "source-and-port"),
    ports,
  }).map(({ families, ingress, scheduler, hash, ...spec }) => {
    const clusterIPs = families.map((f) => f === 4 ? `10.96.0.${number}` : `fd00:10:96::${number}`);
    return buildService({
      name: `s${number}`,
      metadata: {
        creationTimestamp: `2026-01-0${number}T00:00:00Z`,
        annotations: { "signpost.dev/scheduler": scheduler, "signpost.dev/hash": hash },
      },
      ...spec,
      clusterIP: clusterIPs[0],
      clusterIPs,
      ingress,
    });
  });
}

function slice(serviceNumber: number, sliceNumber: number): fc.Arbitrary<ApiObject> {
  return fc.constantFrom(4 as const, 4 as const, 6 as const).chain((family) =>
    fc.record({
      endpoints: fc.array(
        fc.record({
          addresses: fc.constantFrom(...POD_ADDRESSES[family]).map((address) => [address]),
          nodeName: fc.constantFrom(...NODES),
          conditions: fc.record({
            ready: maybe(fc.boolean()),
            serving: maybe(fc.boolean()),
            terminating: maybe(fc.boolean()),
          }),
        }),
        { maxLength: 4 },
      ),
      ports: fc.constantFrom(...[8080, 9090].map((port) =>
        PORT_NAMES.flatMap((name) =>
          ["TCP", "UDP", "SCTP"].map((protocol) => ({ name, protocol, port }))
        )
      )),
    }).map((fields) => {
      const service = `s${serviceNumber}`;
      return buildSlice({
        service,
        name: `${service}-${sliceNumber}`,
        addressType: `IPv${family}`,
        ...fields,
      });
    })
  );
}

const NODE = node({ addresses: ["192.0.2.10", "2001:db8::10"] });

const serviceCIDR: fc.Arbitrary<ApiObject> = fc.record({
  kind: fc.constant("ServiceCIDR"),
  metadata: fc.constant({ name: "kubernetes" }),
  spec: fc.record({
    cidrs: fc.uniqueArray(
      fc.constantFrom("10.96.0.0/12", "10.96.0.0/16", "10.112.0.0/12", "fd00:10:96::/112"),
      { maxLength: 3 },
    ),
  }),
});

/** All objects of a small cluster: up to three Services with up to two slices each. */
export const cluster: fc.Arbitrary<ApiObject[]> = fc.tuple(
  maybe(serviceCIDR),
  ...[1, 2, 3].flatMap((
    number,
  ) => [maybe(service(number)), maybe(slice(number, 1)), maybe(slice(number, 2))]),
).map((objects) => [NODE, ...objects.filter((each): each is ApiObject => each !== undefined)]);

/**
 * The fields that signpost reads of API objects, for the protobuf reader and the decoders. Numbers and names are
 * from the API's generated.proto files. A decoder can read no other field (`tests/source/objects/tables_test.ts`).
 */
import type { Kind } from "../../model/cluster/objects.ts";

/**
 * The type of a field that is not a message. `integer` has 32 bits, `long` 64. `bytes` is a view of the input. `time`
 * is meta/v1 Time: RFC 3339 in JSON, a `Date` from protobuf. `map` is of texts.
 */
export type Scalar = "string" | "integer" | "long" | "boolean" | "bytes" | "time" | "map";

/** The fields of a message, by their names in JSON. */
export interface Fields {
  readonly [name: string]: Field;
}

export interface Field {
  /** The field's protobuf number. */
  readonly number: number;
  readonly value: Scalar | Fields;
  /** True if it is a list of such values. */
  readonly repeated: boolean;
}

/** Returns a field that is one value. */
export function one(number: number, value: Scalar | Fields): Field {
  return { number, value, repeated: false };
}

export function many(number: number, value: Scalar | Fields): Field {
  return { number, value, repeated: true };
}

/** meta/v1 ObjectMeta. */
const METADATA = {
  name: one(1, "string"),
  namespace: one(3, "string"),
  uid: one(5, "string"),
  resourceVersion: one(6, "string"),
  creationTimestamp: one(8, "time"),
  deletionTimestamp: one(9, "time"),
  labels: one(11, "map"),
  annotations: one(12, "map"),
};

/** core/v1 Service. */
const SERVICE = {
  metadata: one(1, METADATA),
  spec: one(2, {
    ports: many(1, {
      name: one(1, "string"),
      protocol: one(2, "string"),
      port: one(3, "integer"),
      nodePort: one(5, "integer"),
    }),
    clusterIP: one(3, "string"),
    type: one(4, "string"),
    externalIPs: many(5, "string"),
    sessionAffinity: one(7, "string"),
    loadBalancerSourceRanges: many(9, "string"),
    externalTrafficPolicy: one(11, "string"),
    healthCheckNodePort: one(12, "integer"),
    sessionAffinityConfig: one(14, { clientIP: one(1, { timeoutSeconds: one(1, "integer") }) }),
    clusterIPs: many(18, "string"),
    internalTrafficPolicy: one(22, "string"),
  }),
  status: one(3, {
    loadBalancer: one(1, { ingress: many(1, { ip: one(1, "string"), ipMode: one(3, "string") }) }),
  }),
};

/** discovery.k8s.io/v1 EndpointSlice. */
const ENDPOINT_SLICE = {
  metadata: one(1, METADATA),
  endpoints: many(2, {
    addresses: many(1, "string"),
    conditions: one(2, {
      ready: one(1, "boolean"),
      serving: one(2, "boolean"),
      terminating: one(3, "boolean"),
    }),
    nodeName: one(6, "string"),
    hints: one(8, {
      forZones: many(1, { name: one(1, "string") }),
      forNodes: many(2, { name: one(1, "string") }),
    }),
  }),
  ports: many(3, { name: one(1, "string"), protocol: one(2, "string"), port: one(3, "integer") }),
  addressType: one(4, "string"),
};

/** core/v1 Node. */
const NODE = {
  metadata: one(1, METADATA),
  spec: one(2, {
    podCIDR: one(1, "string"),
    taints: many(5, { key: one(1, "string") }),
    podCIDRs: many(7, "string"),
  }),
  status: one(3, { addresses: many(5, { type: one(1, "string"), address: one(2, "string") }) }),
};

/** networking.k8s.io/v1 ServiceCIDR. */
const SERVICE_CIDR = {
  metadata: one(1, METADATA),
  spec: one(2, { cidrs: many(1, "string") }),
};

export const TABLES: { readonly [K in Kind]: Fields } = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  ServiceCIDR: SERVICE_CIDR,
};

export const API_VERSION: { readonly [K in Kind]: string } = {
  Service: "v1",
  EndpointSlice: "discovery.k8s.io/v1",
  Node: "v1",
  ServiceCIDR: "networking.k8s.io/v1",
};

/** The label of Services and EndpointSlices that another proxy serves. */
export const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** The label of EndpointSlices of headless Services. */
export const HEADLESS = "service.kubernetes.io/headless";

const KIND_OF: ReadonlyMap<unknown, Kind> = new Map([
  ...Object.entries(API_VERSION).map(([kind, version]) =>
    [`${version}/${kind}`, kind as Kind] as const
  ),
  ["networking.k8s.io/v1beta1/ServiceCIDR", "ServiceCIDR"],
]);

/** Returns the kind of an object, or `undefined` if signpost does not read it. */
export function kindOf(
  object: { readonly apiVersion?: unknown; readonly kind?: unknown },
): Kind | undefined {
  return KIND_OF.get(`${object.apiVersion}/${object.kind}`);
}

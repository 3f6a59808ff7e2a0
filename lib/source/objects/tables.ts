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

/** The fields of a message, by their protobuf numbers. */
export type Message = Readonly<Record<number, Field>>;

export interface Field {
  /** The field's name in JSON. */
  readonly name: string;
  readonly value: Scalar | Message;
  /** True if it is a list of such values. */
  readonly repeated: boolean;
  /** The most entries of a list. The reader skips what follows the first one too many. */
  readonly most?: number;
}

/** Returns a field that is one value. */
export function one(name: string, value: Scalar | Message): Field {
  return { name, value, repeated: false };
}

export function many(name: string, value: Scalar | Message, most = Infinity): Field {
  return { name, value, repeated: true, most };
}

/**
 * The most entries in the lists of a slice, as Kubernetes allows (`pkg/apis/discovery/validation`). Nobody checks
 * manifests, so they may have ten times its endpoints.
 */
export const MOST = { endpoints: 10_000, addresses: 100, hints: 8, ports: 20_000 };

/** meta/v1 ObjectMeta. */
const METADATA: Message = {
  1: one("name", "string"),
  3: one("namespace", "string"),
  5: one("uid", "string"),
  6: one("resourceVersion", "string"),
  8: one("creationTimestamp", "time"),
  9: one("deletionTimestamp", "time"),
  11: one("labels", "map"),
  12: one("annotations", "map"),
};

/** core/v1 Service. */
const SERVICE: Message = {
  1: one("metadata", METADATA),
  2: one("spec", {
    1: many("ports", {
      1: one("name", "string"),
      2: one("protocol", "string"),
      3: one("port", "integer"),
      5: one("nodePort", "integer"),
    }),
    2: one("selector", "map"),
    3: one("clusterIP", "string"),
    4: one("type", "string"),
    5: many("externalIPs", "string"),
    7: one("sessionAffinity", "string"),
    9: many("loadBalancerSourceRanges", "string"),
    11: one("externalTrafficPolicy", "string"),
    12: one("healthCheckNodePort", "integer"),
    14: one("sessionAffinityConfig", {
      1: one("clientIP", { 1: one("timeoutSeconds", "integer") }),
    }),
    18: many("clusterIPs", "string"),
    22: one("internalTrafficPolicy", "string"),
  }),
  3: one("status", {
    1: one("loadBalancer", {
      1: many("ingress", { 1: one("ip", "string"), 3: one("ipMode", "string") }),
    }),
  }),
};

/** discovery.k8s.io/v1 EndpointSlice. */
const ENDPOINT_SLICE: Message = {
  1: one("metadata", METADATA),
  2: many("endpoints", {
    1: many("addresses", "string", MOST.addresses),
    2: one("conditions", {
      1: one("ready", "boolean"),
      2: one("serving", "boolean"),
      3: one("terminating", "boolean"),
    }),
    6: one("nodeName", "string"),
    8: one("hints", {
      1: many("forZones", { 1: one("name", "string") }, MOST.hints),
      2: many("forNodes", { 1: one("name", "string") }, MOST.hints),
    }),
  }, MOST.endpoints),
  3: many("ports", {
    1: one("name", "string"),
    2: one("protocol", "string"),
    3: one("port", "integer"),
  }, MOST.ports),
  4: one("addressType", "string"),
};

/** core/v1 Node. */
const NODE: Message = {
  1: one("metadata", METADATA),
  2: one("spec", {
    1: one("podCIDR", "string"),
    5: many("taints", { 1: one("key", "string") }),
    7: many("podCIDRs", "string"),
  }),
  3: one("status", {
    5: many("addresses", { 1: one("type", "string"), 2: one("address", "string") }),
  }),
};

/** networking.k8s.io/v1 ServiceCIDR. */
const SERVICE_CIDR: Message = {
  1: one("metadata", METADATA),
  2: one("spec", { 1: many("cidrs", "string") }),
};

export const TABLES: { readonly [K in Kind]: Message } = {
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

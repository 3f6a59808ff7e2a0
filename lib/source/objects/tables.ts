/**
 * The fields that signpost reads of API objects, for the protobuf reader and the decoders. Numbers and names are
 * from the API's generated.proto files. A decoder that reads a field outside its table does not compile.
 */
import type { Kind } from "../../model/cluster/objects.ts";

/** The type of a field that is not a message. `integer` has 32 bits, `long` 64; `time` is meta/v1 Time. */
export type Scalar = "string" | "integer" | "long" | "boolean" | "bytes" | "time" | "map";

/** The fields of a message, by their names in JSON. */
export interface Fields {
  readonly [name: string]: Field;
}

export interface Field<V extends Scalar | Fields = Scalar | Fields> {
  /** The field's protobuf number. */
  readonly number: number;
  readonly value: V;
  /** True if it is a list of such values. */
  readonly repeated: boolean;
}

export interface ListField<V extends Scalar | Fields = Scalar | Fields> extends Field<V> {
  readonly repeated: true;
}

function scalar<V extends Scalar>(value: V): (number: number) => Field<V> {
  return (number) => ({ number, value, repeated: false });
}

export const string = scalar("string");
export const integer = scalar("integer");
export const long = scalar("long");
export const boolean = scalar("boolean");
/** A view of the input, in protobuf only. */
export const bytes = scalar("bytes");
/** A time: RFC 3339 in JSON, a `Date` from protobuf. */
export const time = scalar("time");
export const map = scalar("map");

export function strings(number: number): ListField<"string"> {
  return { number, value: "string", repeated: true };
}

export function one<F extends Fields>(number: number, value: F): Field<F> {
  return { number, value, repeated: false };
}

export function many<F extends Fields>(number: number, value: F): ListField<F> {
  return { number, value, repeated: true };
}

declare const field: unique symbol;

/** The unchecked value of a field. It may be anything. */
export interface Unread<F extends Field> {
  readonly [field]?: F;
}

/** An unchecked object. Only the fields of its table can be read. */
export type Raw<F extends Fields> = { readonly [N in keyof F]?: Unread<F[N]> };

/** meta/v1 ObjectMeta. */
export const METADATA = {
  name: string(1),
  namespace: string(3),
  uid: string(5),
  resourceVersion: string(6),
  creationTimestamp: time(8),
  deletionTimestamp: time(9),
  labels: map(11),
  annotations: map(12),
};

/** core/v1 Service. */
export const SERVICE = {
  metadata: one(1, METADATA),
  spec: one(2, {
    ports: many(1, {
      name: string(1),
      protocol: string(2),
      port: integer(3),
      nodePort: integer(5),
    }),
    clusterIP: string(3),
    type: string(4),
    externalIPs: strings(5),
    sessionAffinity: string(7),
    loadBalancerSourceRanges: strings(9),
    externalTrafficPolicy: string(11),
    healthCheckNodePort: integer(12),
    sessionAffinityConfig: one(14, { clientIP: one(1, { timeoutSeconds: integer(1) }) }),
    clusterIPs: strings(18),
    internalTrafficPolicy: string(22),
  }),
  status: one(3, {
    loadBalancer: one(1, { ingress: many(1, { ip: string(1), ipMode: string(3) }) }),
  }),
};

/** discovery.k8s.io/v1 EndpointSlice. */
export const ENDPOINT_SLICE = {
  metadata: one(1, METADATA),
  endpoints: many(2, {
    addresses: strings(1),
    conditions: one(2, { ready: boolean(1), serving: boolean(2), terminating: boolean(3) }),
    nodeName: string(6),
    hints: one(8, {
      forZones: many(1, { name: string(1) }),
      forNodes: many(2, { name: string(1) }),
    }),
  }),
  ports: many(3, { name: string(1), protocol: string(2), port: integer(3) }),
  addressType: string(4),
};

/** core/v1 Node. */
export const NODE = {
  metadata: one(1, METADATA),
  spec: one(2, {
    podCIDR: string(1),
    taints: many(5, { key: string(1) }),
    podCIDRs: strings(7),
  }),
  status: one(3, { addresses: many(5, { type: string(1), address: string(2) }) }),
};

/** networking.k8s.io/v1 ServiceCIDR. */
export const SERVICE_CIDR = {
  metadata: one(1, METADATA),
  spec: one(2, { cidrs: strings(1) }),
};

export const TABLES = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  ServiceCIDR: SERVICE_CIDR,
} satisfies { readonly [K in Kind]: Fields };

export type Tables = typeof TABLES;

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

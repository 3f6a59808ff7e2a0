/**
 * Lists the fields of API objects that signpost reads, and writes into the state file. Numbers and names are from the
 * API's generated.proto files. A decoder can read only these fields (`tests/source/objects/tables_test.ts`).
 */
import type {
  Endpoint,
  EndpointSlice,
  Kind,
  KindMap,
  Node,
  Service,
} from "../../model/cluster/objects.ts";
import type { JsonObject } from "../../model/values/record.ts";

/**
 * The type of a field that is not a message. `integer` has 32 bits, `long` 64. `bytes` is a view of the input. `time`
 * is meta/v1 Time: RFC 3339 in JSON, a `Date` from protobuf. `map` has texts.
 */
type Scalar = "string" | "integer" | "long" | "boolean" | "bytes" | "time" | "map";

/** The fields of a message, by their protobuf numbers. */
export type Message = Readonly<Record<number, Field>>;

interface FieldOptions {
  /** The most entries of a list. The reader keeps one entry more, so that the decoder refuses the list. */
  readonly most?: number;
  /**
   * Returns the value to write, of an object of the model. @default the object's field of the same name; a message
   * that is not a list is written from the object itself
   */
  readonly from?: (object: never) => unknown;
}

export interface Field extends FieldOptions {
  /** The field's name in JSON. */
  readonly name: string;
  readonly value: Scalar | Message;
  /** True if it is a list of such values. */
  readonly repeated: boolean;
}

/** Returns a field that is one value. */
export function one(name: string, value: Scalar | Message, from?: FieldOptions["from"]): Field {
  return { name, value, repeated: false, ...from && { from } };
}

function many(name: string, value: Scalar | Message, options: FieldOptions = {}): Field {
  return { name, value, repeated: true, ...options };
}

/** The most entries in a slice's lists, as in Kubernetes; but ten times the endpoints, for manifests. */
export const MOST = { endpoints: 10_000, addresses: 100, hints: 8, ports: 20_000 };

/** The label with the name of an EndpointSlice's Service. */
export const SERVICE_NAME = "kubernetes.io/service-name";

/** The annotation with the time of the Pod change that caused a slice's update. */
export const CHANGE_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time";

/** The label of Services and EndpointSlices that another proxy serves. */
export const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** The label of EndpointSlices of headless Services. */
export const HEADLESS = "service.kubernetes.io/headless";

export const SCHEDULER_ANNOTATION = "signpost.dev/scheduler";
export const HASH_ANNOTATION = "signpost.dev/hash";

/** The annotation that switches the fast path of a Service on or off. */
export const ACCELERATION_ANNOTATION = "signpost.dev/acceleration";

/** The taint of a Node that the cluster autoscaler is about to remove. */
export const AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler";

export const ZONE_LABEL = "topology.kubernetes.io/zone";

/** meta/v1 ObjectMeta. */
const METADATA: Message = {
  1: one("name", "string"),
  3: one("namespace", "string"),
  5: one("uid", "string"),
  6: one("resourceVersion", "string"),
  8: one("creationTimestamp", "time", ({ created }: Service) => created),
  9: one("deletionTimestamp", "time"),
  11: one("labels", "map"),
  12: one("annotations", "map"),
};

/** core/v1 Service. */
const SERVICE: Message = {
  1: one("metadata", {
    ...METADATA,
    12: one("annotations", "map", ({ scheduler, acceleration }: Service) =>
      texts({
        [SCHEDULER_ANNOTATION]: scheduler?.name,
        [HASH_ANNOTATION]: scheduler?.hash,
        [ACCELERATION_ANNOTATION]: acceleration,
      })),
  }),
  2: one("spec", {
    1: many("ports", {
      1: one("name", "string"),
      2: one("protocol", "string", upperCase),
      3: one("port", "integer"),
      5: one("nodePort", "integer"),
    }),
    // The model keeps only whether there is one.
    2: one("selector", "map", ({ hasSelector }: Service) =>
      texts({
        selector: hasSelector ? "not kept" : "",
      })),
    3: one("clusterIP", "string", ({ clusterIPs }: Service) => clusterIPs[0]),
    4: one("type", "string"),
    5: many("externalIPs", "string"),
    7: one(
      "sessionAffinity",
      "string",
      (service: Service) => service.affinitySeconds && "ClientIP",
    ),
    9: many("loadBalancerSourceRanges", "string", {
      from: ({ sourceRanges }: Service) => sourceRanges,
    }),
    11: one("externalTrafficPolicy", "string"),
    12: one("healthCheckNodePort", "integer"),
    14: one("sessionAffinityConfig", {
      1: one("clientIP", {
        1: one("timeoutSeconds", "integer", ({ affinitySeconds }: Service) => affinitySeconds),
      }),
    }),
    18: many("clusterIPs", "string"),
    22: one("internalTrafficPolicy", "string"),
  }),
  3: one("status", {
    1: one("loadBalancer", {
      1: many("ingress", { 1: one("ip", "string"), 3: one("ipMode", "string") }, {
        from: ({ isProxiedByBalancer, loadBalancerIPs }: Service) =>
          isProxiedByBalancer ? [{ ipMode: "Proxy" }] : loadBalancerIPs.map((ip) => ({ ip })),
      }),
    }),
  }),
};

function upperCase({ protocol }: { readonly protocol: string }): string {
  return protocol.toUpperCase();
}

function named(names: readonly string[]): readonly JsonObject[] {
  return names.map((name) => ({ name }));
}

/** discovery.k8s.io/v1 EndpointSlice. */
const ENDPOINT_SLICE: Message = {
  1: one("metadata", {
    ...METADATA,
    11: one("labels", "map", ({ serviceName }: EndpointSlice) => ({ [SERVICE_NAME]: serviceName })),
    12: one("annotations", "map", ({ lastChangeTriggerTime }: EndpointSlice) =>
      texts({
        [CHANGE_TRIGGER]: timeText(lastChangeTriggerTime),
      })),
  }),
  2: many("endpoints", {
    1: many("addresses", "string", {
      most: MOST.addresses,
      from: ({ address }: Endpoint) => [address],
    }),
    2: one("conditions", {
      // Defaults stay out.
      1: one("ready", "boolean", ({ ready }: Endpoint) => ready ? undefined : false),
      2: one("serving", "boolean", ({ serving }: Endpoint) => serving ? undefined : false),
      3: one("terminating", "boolean", ({ terminating }: Endpoint) => terminating || undefined),
    }),
    6: one("nodeName", "string"),
    8: one("hints", {
      1: many("forZones", { 1: one("name", "string") }, {
        most: MOST.hints,
        from: ({ zoneHints }: Endpoint) => named(zoneHints),
      }),
      2: many("forNodes", { 1: one("name", "string") }, {
        most: MOST.hints,
        from: ({ nodeHints }: Endpoint) => named(nodeHints),
      }),
    }),
  }, { most: MOST.endpoints }),
  3: many("ports", {
    1: one("name", "string"),
    2: one("protocol", "string", upperCase),
    3: one("port", "integer"),
  }, { most: MOST.ports }),
  4: one("addressType", "string", ({ family }: EndpointSlice) => `IPv${family}`),
};

/** core/v1 Node. All addresses are written as internal ones, and `deleting` as the taint. */
const NODE: Message = {
  1: one("metadata", {
    ...METADATA,
    11: one("labels", "map", ({ zone }: Node) => texts({ [ZONE_LABEL]: zone })),
  }),
  2: one("spec", {
    1: one("podCIDR", "string"),
    5: many("taints", { 1: one("key", "string") }, {
      from: ({ deleting }: Node) => deleting ? [{ key: AUTOSCALER_TAINT }] : [],
    }),
    7: many("podCIDRs", "string"),
  }),
  3: one("status", {
    5: many("addresses", { 1: one("type", "string"), 2: one("address", "string") }, {
      from: ({ addresses }: Node) => addresses.map((address) => ({ type: "InternalIP", address })),
    }),
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

const API_VERSION: { readonly [K in Kind]: string } = {
  Service: "v1",
  EndpointSlice: "discovery.k8s.io/v1",
  Node: "v1",
  ServiceCIDR: "networking.k8s.io/v1",
};

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

type Encoder = (object: unknown) => unknown;

/** Returns a function that encodes the fields of a message. Zeros and empty values stay out. */
function encoderOf(fields: Message): Encoder {
  const encoders = Object.values(fields).map((field) => ({
    name: field.name,
    encode: fieldEncoderOf(field),
  }));
  return (object) => {
    let encoded: Record<string, unknown> | undefined;
    for (const { name, encode } of encoders) {
      const value = encode(object);
      if (Array.isArray(value) ? value.length > 0 : value || value === false) {
        (encoded ??= {})[name] = value;
      }
    }
    return encoded;
  };
}

function fieldEncoderOf({ name, value, repeated, from }: Field): Encoder {
  const given = (object: unknown): unknown =>
    from ? from(object as never) : (object as JsonObject)[name];
  if (value === "time") return (object) => timeText(given(object) as number | undefined);
  if (typeof value !== "object") return given;
  const encode = encoderOf(value);
  return repeated ? (object) => (given(object) as readonly unknown[]).map(encode) : encode;
}

const ENCODERS = new Map(Object.entries(TABLES).map(([kind, fields]) => [kind, encoderOf(fields)]));

/** Returns an API object that decodes to the same object. Parts that the decoder left out stay out. */
export function encodeObject<K extends Kind>(kind: K, object: KindMap[K]): JsonObject {
  return { apiVersion: API_VERSION[kind], kind, ...ENCODERS.get(kind)?.(object) as JsonObject };
}

/** Returns the entries that have a text; `undefined` without any. */
function texts(map: Readonly<Record<string, string | undefined>>): JsonObject | undefined {
  const entries = Object.entries(map).filter(([, text]) => text);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** Returns RFC 3339, or `undefined` for 0 and for a kind without the time. */
function timeText(time: number | undefined): string | undefined {
  return time ? new Date(time).toISOString() : undefined;
}

/** The collection of a kind (kubernetes.io/docs/reference/using-api/api-concepts). */
export interface Resource {
  readonly path: string;
  readonly selectors: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** True if a cluster may lack the resource. */
  readonly optional?: boolean;
}

/** Returns the path of a kind's objects in one namespace. */
export function namespacedPath(kind: Kind, namespace: string): string {
  return resourceOf(kind, "").path.replace(/\/\w+$/, `/namespaces/${namespace}$&`);
}

/** Returns the collection of a kind, with kube-proxy's label selectors (cmd/kube-proxy/app/server.go). */
export function resourceOf(kind: Kind, nodeName: string): Resource {
  const resources: { readonly [K in Kind]: Resource } = {
    // Servers before Kubernetes 1.31 lack a field selector for cluster IPs. The decoder ignores headless Services.
    Service: { path: "/api/v1/services", selectors: { labelSelector: `!${SERVICE_PROXY_NAME}` } },
    EndpointSlice: {
      path: "/apis/discovery.k8s.io/v1/endpointslices",
      selectors: { labelSelector: `!${HEADLESS}` },
    },
    Node: { path: "/api/v1/nodes", selectors: { fieldSelector: `metadata.name=${nodeName}` } },
    // ServiceCIDRs came with Kubernetes 1.33.
    ServiceCIDR: { path: "/apis/networking.k8s.io/v1/servicecidrs", selectors: {}, optional: true },
  };
  return resources[kind];
}

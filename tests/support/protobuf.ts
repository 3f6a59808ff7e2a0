/**
 * Objects as kube-apiserver writes them in protobuf. What each message looks like is told here once
 * more, in full where signpost reads a part, so that a wrong number on one side shows.
 */
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import type { ApiObject } from "./api_store.ts";

type Scalar = "string" | "int32" | "int64" | "bool";
type Type = Scalar | "strings" | "map" | "time" | "json" | "intOrString" | Message | [Message];

/** Number and type of each field; `always`: Go has no pointer there, so zero values are written too. */
type Message = Readonly<Record<string, readonly [number, Type, "always"?]>>;

const OBJECT_META: Message = {
  name: [1, "string", "always"],
  generateName: [2, "string", "always"],
  namespace: [3, "string", "always"],
  selfLink: [4, "string", "always"],
  uid: [5, "string", "always"],
  resourceVersion: [6, "string", "always"],
  generation: [7, "int64", "always"],
  creationTimestamp: [8, "time", "always"],
  deletionTimestamp: [9, "time"],
  deletionGracePeriodSeconds: [10, "int64"],
  labels: [11, "map"],
  annotations: [12, "map"],
  ownerReferences: [13, [{
    kind: [1, "string", "always"],
    name: [3, "string", "always"],
    uid: [4, "string", "always"],
    apiVersion: [5, "string", "always"],
    controller: [6, "bool"],
    blockOwnerDeletion: [7, "bool"],
  }]],
  finalizers: [14, "strings"],
  managedFields: [17, [{
    manager: [1, "string", "always"],
    operation: [2, "string", "always"],
    apiVersion: [3, "string", "always"],
    time: [4, "time"],
    fieldsType: [6, "string", "always"],
    fieldsV1: [7, "json"],
    subresource: [8, "string", "always"],
  }]],
};

const SERVICE: Message = {
  metadata: [1, OBJECT_META, "always"],
  spec: [2, {
    ports: [1, [{
      name: [1, "string", "always"],
      protocol: [2, "string", "always"],
      port: [3, "int32", "always"],
      targetPort: [4, "intOrString", "always"],
      nodePort: [5, "int32", "always"],
      appProtocol: [6, "string"],
    }]],
    selector: [2, "map"],
    clusterIP: [3, "string", "always"],
    type: [4, "string", "always"],
    externalIPs: [5, "strings"],
    sessionAffinity: [7, "string", "always"],
    loadBalancerIP: [8, "string", "always"],
    loadBalancerSourceRanges: [9, "strings"],
    externalName: [10, "string", "always"],
    externalTrafficPolicy: [11, "string", "always"],
    healthCheckNodePort: [12, "int32", "always"],
    publishNotReadyAddresses: [13, "bool", "always"],
    sessionAffinityConfig: [14, { clientIP: [1, { timeoutSeconds: [1, "int32"] }] }],
    ipFamilyPolicy: [17, "string"],
    clusterIPs: [18, "strings"],
    ipFamilies: [19, "strings"],
    allocateLoadBalancerNodePorts: [20, "bool"],
    loadBalancerClass: [21, "string"],
    internalTrafficPolicy: [22, "string"],
    trafficDistribution: [23, "string"],
  }, "always"],
  status: [3, {
    loadBalancer: [1, {
      ingress: [1, [{
        ip: [1, "string", "always"],
        hostname: [2, "string", "always"],
        ipMode: [3, "string"],
      }]],
    }, "always"],
  }, "always"],
};

const NAMED: Message = { name: [1, "string", "always"] };

const ENDPOINT_SLICE: Message = {
  metadata: [1, OBJECT_META, "always"],
  endpoints: [2, [{
    addresses: [1, "strings"],
    conditions: [2, {
      ready: [1, "bool"],
      serving: [2, "bool"],
      terminating: [3, "bool"],
    }, "always"],
    hostname: [3, "string"],
    targetRef: [4, {
      kind: [1, "string", "always"],
      namespace: [2, "string", "always"],
      name: [3, "string", "always"],
      uid: [4, "string", "always"],
      apiVersion: [5, "string", "always"],
      resourceVersion: [6, "string", "always"],
      fieldPath: [7, "string", "always"],
    }],
    deprecatedTopology: [5, "map"],
    nodeName: [6, "string"],
    zone: [7, "string"],
    hints: [8, { forZones: [1, [NAMED]], forNodes: [2, [NAMED]] }],
  }]],
  ports: [3, [{
    name: [1, "string"],
    protocol: [2, "string"],
    port: [3, "int32"],
    appProtocol: [4, "string"],
  }]],
  addressType: [4, "string", "always"],
};

const NODE: Message = {
  metadata: [1, OBJECT_META, "always"],
  spec: [2, {
    podCIDR: [1, "string", "always"],
    providerID: [3, "string", "always"],
    unschedulable: [4, "bool", "always"],
    taints: [5, [{
      key: [1, "string", "always"],
      value: [2, "string", "always"],
      effect: [3, "string", "always"],
      timeAdded: [4, "time"],
    }]],
    podCIDRs: [7, "strings"],
  }, "always"],
  status: [3, {
    phase: [3, "string", "always"],
    addresses: [5, [{ type: [1, "string", "always"], address: [2, "string", "always"] }]],
  }, "always"],
};

const SERVICE_CIDR: Message = {
  metadata: [1, OBJECT_META, "always"],
  spec: [2, { cidrs: [1, "strings"] }, "always"],
};

const STATUS: Message = {
  metadata: [1, { resourceVersion: [2, "string", "always"] }, "always"],
  status: [2, "string", "always"],
  message: [3, "string", "always"],
  reason: [4, "string", "always"],
  details: [5, { retryAfterSeconds: [5, "int32", "always"] }],
  code: [6, "int32", "always"],
};

const MESSAGES: Readonly<Record<string, Message>> = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  ServiceCIDR: SERVICE_CIDR,
  Status: STATUS,
};

/** Returns true if objects of a kind can be encoded. */
export function hasProtobuf(kind: string): boolean {
  return kind in MESSAGES;
}

/** An object behind its prefix, in a runtime Unknown. */
export function encodeObject(object: Partial<ApiObject>): Uint8Array {
  const message = MESSAGES[object.kind ?? ""];
  if (message === undefined) throw new Error(`no protobuf for kind ${object.kind}`);
  const writer = new BinaryWriter().raw(new TextEncoder().encode("k8s\0"));
  const typeMeta = { apiVersion: object.apiVersion ?? "v1", kind: object.kind };
  writeField(writer, 1, { apiVersion: [1, "string"], kind: [2, "string"] }, typeMeta);
  writer.tag(2, 2).bytes(encode(message, object));
  writer.tag(3, 2).string("").tag(4, 2).string("");
  return writer.finish();
}

/** A watch event of an encoded object, as a frame. */
export function encodeEvent(type: string, object: Uint8Array): Uint8Array {
  const raw = new BinaryWriter().tag(1, 2).uint32(object.length).finish();
  const head = new BinaryWriter().tag(1, 2).string(type)
    .tag(2, 2).uint32(raw.length + object.length).raw(raw).finish();
  const frame = new Uint8Array(4 + head.length + object.length);
  new DataView(frame.buffer).setUint32(0, frame.length - 4);
  frame.set(head, 4);
  frame.set(object, 4 + head.length);
  return frame;
}

function encode(message: Message, value: unknown): Uint8Array {
  const writer = new BinaryWriter();
  writeFields(writer, message, value);
  return writer.finish();
}

function writeFields(writer: BinaryWriter, message: Message, value: unknown): void {
  const fields = value as Readonly<Record<string, unknown>>;
  for (const [name, [number, type, always]] of Object.entries(message)) {
    const field = fields?.[name] ?? (always && zero(type));
    if (field !== undefined) writeField(writer, number, type, field);
  }
}

function zero(type: Type): unknown {
  if (type === "string" || type === "time") return "";
  if (type === "int32" || type === "int64") return 0;
  return type === "bool" ? false : {};
}

function writeField(writer: BinaryWriter, number: number, type: Type, value: unknown): void {
  if (Array.isArray(type)) {
    for (const each of value as unknown[]) writeField(writer, number, type[0], each);
  } else if (typeof type === "object") {
    writer.tag(number, 2).fork();
    writeFields(writer, type as Message, value);
    writer.join();
  } else WRITERS[type](writer, number, value as never);
}

type Writer = (writer: BinaryWriter, number: number, value: never) => void;

const WRITERS: Readonly<Record<Extract<Type, string>, Writer>> = {
  string: (writer, number, value: string) => writer.tag(number, 2).string(value),
  int32: (writer, number, value: number) => writer.tag(number, 0).int32(value),
  int64: (writer, number, value: number) => writer.tag(number, 0).int64(value),
  bool: (writer, number, value: boolean) => writer.tag(number, 0).bool(value),
  strings: (writer, number, value: readonly string[]) => {
    for (const each of value) writer.tag(number, 2).string(each);
  },
  map: (writer, number, value: Readonly<Record<string, string>>) => {
    for (const [key, each] of Object.entries(value)) {
      writer.tag(number, 2).fork().tag(1, 2).string(key).tag(2, 2).string(each).join();
    }
  },
  time: (writer, number, value: string) => {
    writer.tag(number, 2).fork();
    if (value !== "") {
      writer.tag(1, 0).int64(Math.floor(Date.parse(value) / 1000)).tag(2, 0).int32(0);
    }
    writer.join();
  },
  json: (writer, number, value: unknown) =>
    writer.tag(number, 2).fork().tag(1, 2).string(JSON.stringify(value)).join(),
  intOrString: (writer, number, value: number | string) => {
    writer.tag(number, 2).fork().tag(1, 0).int64(typeof value === "string" ? 1 : 0);
    writer.tag(2, 0).int32(typeof value === "number" ? value : 0);
    writer.tag(3, 2).string(typeof value === "string" ? value : "").join();
  },
};

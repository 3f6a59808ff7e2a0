/**
 * The messages that signpost reads, of each the fields that it has a use for. Numbers and names are
 * those of the API's generated.proto files (k8s.io/api/core/v1, k8s.io/api/discovery/v1,
 * k8s.io/api/networking/v1, k8s.io/apimachinery/pkg/apis/meta/v1, k8s.io/apimachinery/pkg/runtime).
 *
 * @module
 */
import type { Kind } from "../../../model/objects.ts";
import { type Field, type Message, type MessageObject, readMessage } from "./protobuf.ts";

const string = (name: string): Field => ({ name, value: "string" });
const strings = (name: string): Field => ({ name, value: "string", repeated: true });
const integer = (name: string): Field => ({ name, value: "integer" });
const boolean = (name: string): Field => ({ name, value: "boolean" });
const bytes = (name: string): Field => ({ name, value: "bytes" });
const time = (name: string): Field => ({ name, value: "time" });
const map = (name: string): Field => ({ name, value: "map" });
const one = (name: string, value: Message): Field => ({ name, value });
const many = (name: string, value: Message): Field => ({ name, value, repeated: true });

/** meta/v1 WatchEvent: one frame of a watch stream. */
export const WATCH_EVENT: Message = {
  1: string("type"),
  2: one("object", { 1: bytes("raw") }),
};

/** runtime Unknown: any object. */
const UNKNOWN: Message = {
  1: one("typeMeta", { 2: string("kind") }),
  2: bytes("raw"),
};

const OBJECT_META = one("metadata", {
  1: string("name"),
  3: string("namespace"),
  5: string("uid"),
  6: string("resourceVersion"),
  8: time("creationTimestamp"),
  9: time("deletionTimestamp"),
  11: map("labels"),
  12: map("annotations"),
});

const SERVICE: Message = {
  1: OBJECT_META,
  2: one("spec", {
    1: many("ports", {
      1: string("name"),
      2: string("protocol"),
      3: integer("port"),
      5: integer("nodePort"),
    }),
    3: string("clusterIP"),
    4: string("type"),
    5: strings("externalIPs"),
    7: string("sessionAffinity"),
    9: strings("loadBalancerSourceRanges"),
    11: string("externalTrafficPolicy"),
    12: integer("healthCheckNodePort"),
    14: one("sessionAffinityConfig", { 1: one("clientIP", { 1: integer("timeoutSeconds") }) }),
    18: strings("clusterIPs"),
    22: string("internalTrafficPolicy"),
  }),
  3: one("status", {
    1: one("loadBalancer", { 1: many("ingress", { 1: string("ip"), 3: string("ipMode") }) }),
  }),
};

const ENDPOINT_SLICE: Message = {
  1: OBJECT_META,
  2: many("endpoints", {
    1: strings("addresses"),
    2: one("conditions", { 1: boolean("ready"), 2: boolean("serving"), 3: boolean("terminating") }),
    6: string("nodeName"),
    8: one("hints", {
      1: many("forZones", { 1: string("name") }),
      2: many("forNodes", { 1: string("name") }),
    }),
  }),
  3: many("ports", { 1: string("name"), 2: string("protocol"), 3: integer("port") }),
  4: string("addressType"),
};

const NODE: Message = {
  1: OBJECT_META,
  2: one("spec", {
    1: string("podCIDR"),
    5: many("taints", { 1: string("key") }),
    7: strings("podCIDRs"),
  }),
  3: one("status", { 5: many("addresses", { 1: string("type"), 2: string("address") }) }),
};

const SERVICE_CIDR: Message = {
  1: OBJECT_META,
  2: one("spec", { 1: strings("cidrs") }),
};

const STATUS: Message = {
  3: string("message"),
  5: one("details", { 5: integer("retryAfterSeconds") }),
  6: integer("code"),
};

/** What a server answers with, by kind. */
const OBJECTS: ReadonlyMap<unknown, Message> = new Map<Kind | "Status", Message>([
  ["Service", SERVICE],
  ["EndpointSlice", ENDPOINT_SLICE],
  ["Node", NODE],
  ["ServiceCIDR", SERVICE_CIDR],
  ["Status", STATUS],
]);

/** `k8s\0`: what any object begins with. */
const PREFIX: readonly number[] = [0x6b, 0x38, 0x73, 0x00];

/** Whether this is an object in protobuf. */
export function isApiObject(bytes: Uint8Array): boolean {
  return PREFIX.every((byte, i) => bytes[i] === byte);
}

/**
 * Reads an object of a kind that signpost asks for, or a Status.
 *
 * @throws {Error} where it is none
 */
export function readApiObject(bytes: Uint8Array): MessageObject {
  if (!isApiObject(bytes)) throw new Error("an object without its prefix");
  const { typeMeta, raw } = readMessage(bytes.subarray(PREFIX.length), UNKNOWN);
  const kind = (typeMeta as MessageObject | undefined)?.["kind"];
  const message = OBJECTS.get(kind);
  if (message === undefined) throw new Error(`an object of kind ${JSON.stringify(kind ?? null)}`);
  return readMessage(raw instanceof Uint8Array ? raw : new Uint8Array(), message);
}

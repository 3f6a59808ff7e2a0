/** Objects in protobuf give the same as in JSON, and no bytes do harm. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import type { Kind } from "../../../lib/model/cluster/objects.ts";
import { StatusError, WatchError } from "../../../lib/source/api/failure.ts";
import {
  parseWatchEvent,
  readApiObject,
  type WatchEvent,
} from "../../../lib/source/api/watch_events.ts";
import { cluster } from "../../support/arbitrary.ts";
import type { ApiObject } from "../../support/api_store.ts";
import { encodeEvent, encodeObject } from "../../support/protobuf.ts";
import { NODE, SERVICE, SERVICE_CIDR, SLICE } from "../objects/decode_fixture.ts";

/** An event without the length in front. */
function frameOf(type: string, object: Partial<ApiObject>): Uint8Array {
  return encodeEvent(type, encodeObject(object)).subarray(4);
}

/** A Service with something that signpost does not read. */
const MANAGED: ApiObject = {
  ...SERVICE,
  metadata: {
    ...SERVICE.metadata,
    resourceVersion: "7",
    generation: 3,
    annotations: { note: "größer als 127: äöü, and longer than what is read byte by byte" },
    managedFields: [{ manager: "kubectl", operation: "Apply", fieldsV1: { "f:spec": {} } }],
  },
};

const DELETED_NODE: ApiObject = {
  ...NODE,
  metadata: { ...NODE.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    podCIDR: "10.244.0.0/24",
    taints: [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }],
  },
};

/** All that signpost reads. */
const FULL = [MANAGED, SLICE, NODE, DELETED_NODE, SERVICE_CIDR];

for (const [index, object] of FULL.entries()) {
  Deno.test(`object ${index}, a ${object.kind}, means the same in protobuf and in JSON`, () => {
    const kind = object.kind as Kind;
    const decoded = createDecoder()(kind, readApiObject(encodeObject(object)));
    assertEquals(decoded, createDecoder()(kind, object));
    assertEquals(decoded.type, "upsert");
  });
}

Deno.test("any object means the same in protobuf and in JSON", () => {
  fc.assert(fc.property(cluster, (objects) => {
    for (const each of objects) {
      const object = { ...each, metadata: { namespace: "default", ...each.metadata } };
      const kind = object.kind as Kind;
      const decoded = createDecoder()(kind, readApiObject(encodeObject(object)));
      assertEquals(decoded, createDecoder()(kind, object));
    }
  }));
});

Deno.test("the events of a stream are separated", () => {
  const types = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "SOMETHING"];
  const events = types.map((type) => parseWatchEvent(frameOf(type, MANAGED)));
  assertEquals(
    events.map((event) => event && `${event.type} ${event.resourceVersion}`),
    ["changed 7", "changed 7", "deleted 7", "bookmark 7", undefined],
  );
  const metadata = {
    name: "",
    resourceVersion: "11",
    annotations: { "k8s.io/initial-events-end": "true" },
  };
  assertEquals(parseWatchEvent(frameOf("BOOKMARK", { kind: "Service", metadata })), {
    type: "bookmark",
    resourceVersion: "11",
    initialEventsEnd: true,
  });
});

Deno.test("an ERROR event carries its code and how long to wait", () => {
  const status = {
    kind: "Status",
    message: "slow\ndown",
    code: 429,
    details: { retryAfterSeconds: 7 },
  };
  const error = assertThrows(() => parseWatchEvent(frameOf("ERROR", status)), StatusError);
  assertEquals([error.status, error.retryAfter], [429, 7000]);
  assertEquals(error.message, "the API server ended the watch: 429 slow down");
});

Deno.test("any bytes are an event or a WatchError", () => {
  const frames = FULL.map((object) => frameOf("ADDED", object));
  const spoilt = fc.tuple(
    fc.constantFrom(...frames),
    fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }),
    fc.double({ min: 0, max: 1, noNaN: true }),
  ).map(([frame, spoils, part]) => {
    const copy = frame.slice(0, Math.ceil(frame.length * part));
    for (const [at, byte] of spoils) copy[at % Math.max(copy.length, 1)] = byte;
    return copy;
  });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array(), spoilt), (bytes) => {
      const event = parseOrRefuse(bytes);
      if (event?.type !== "changed") return;
      for (const kind of ["Service", "EndpointSlice", "Node", "ServiceCIDR"] as const) {
        createDecoder()(kind, event.object);
      }
    }),
    { numRuns: 3_000 },
  );
});

function parseOrRefuse(bytes: Uint8Array): WatchEvent | undefined {
  try {
    return parseWatchEvent(bytes);
  } catch (error) {
    if (!(error instanceof WatchError)) throw error;
    assert(/^[^\p{Cc}]*$/u.test(error.message), JSON.stringify(error.message));
    return undefined;
  }
}

Deno.test("an object of another kind is refused by its name", () => {
  const prefix = [0x6b, 0x38, 0x73, 0x00];
  const typeMeta = [0x0a, 5, 0x12, 3, ...new TextEncoder().encode("Pod")];
  const error = assertThrows(
    () => parseWatchEvent(encodeEvent("ADDED", new Uint8Array([...prefix, ...typeMeta])).slice(4)),
    WatchError,
  );
  assertEquals(error.message, 'a frame is not valid: unknown kind "Pod"');
});

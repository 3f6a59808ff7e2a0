/**
 * An API server that means ill, or one that is none: what it sends without end stays small here.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { Remainder } from "../../../lib/source/api/watch_events.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";

const MB = 1024 * 1024;

/** Bytes in memory beside the program, by what V8 counts. */
function used(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}

Deno.test("a line in chunks of one byte takes a small multiple of its length", () => {
  const remainder = new Remainder();
  const chunk = new Uint8Array([0x61]);
  const before = used();
  for (let i = 0; i < 4 * MB; i++) remainder.keep(chunk);
  const growth = used() - before;
  assert(growth < 32 * MB, `${growth} bytes`);
  assertEquals(remainder.join(chunk), new Uint8Array(4 * MB + 1).fill(0x61));
});

Deno.test("a list with nothing usable in it is given up after ten thousand entries", () => {
  const ports = Array.from({ length: 10_002 }, () => ({}));
  const raw = { metadata: { name: "web" }, spec: { clusterIP: "10.96.0.1", ports } };
  const decoded = createDecoder()("Service", raw);
  assertEquals(decoded, {
    type: "refused",
    key: "default/web",
    reason: "spec.ports must have 10000 unusable entries at most",
  });
});

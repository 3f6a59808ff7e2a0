/** One input of the fuzz run: a watch stream whose bytes were changed on the way. */
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { kindOf } from "../../lib/source/objects/tables.ts";
import { StatusError, WatchError } from "../../lib/source/api/failure.ts";
import { parseWatchEvent, splitFrames, splitLines } from "../../lib/source/api/watch_events.ts";
import type { ApiObject } from "../support/pipeline.ts";
import { encodeEvent, encodeObject } from "../support/protobuf.ts";
import type { Random } from "../support/random.ts";
import { anyObject, mutate, pick } from "./hostile.ts";
import { assertHarmless, checkObjects } from "./objects.ts";

/** Errors with which a stream may end. */
const EXPECTED = [WatchError, StatusError];

const TYPES = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "NEW"];

/** Bytes that are changed, doubled, left out or put in at a few places. */
export function damage(random: Random, bytes: Uint8Array): Uint8Array {
  const damaged = [...bytes];
  for (let left = random(4); left > 0 && damaged.length > 0; left--) {
    const at = random(damaged.length);
    switch (random(5)) {
      case 0:
        damaged[at] = random(256);
        break;
      case 1:
        damaged[at] = (damaged[at] ?? 0) ^ (1 << random(8));
        break;
      case 2:
        damaged.splice(at, 1 + random(8));
        break;
      case 3:
        damaged.splice(at, 0, ...damaged.slice(at, at + random(16)));
        break;
      default:
        damaged.splice(
          at,
          0,
          ...Array.from({ length: random(12) }, () => pick(random, [0, 0x7f, 0xff, random(256)])),
        );
    }
  }
  return new Uint8Array(damaged);
}

function frame(event: Uint8Array): Uint8Array {
  const framed = new Uint8Array(4 + event.length);
  new DataView(framed.buffer).setUint32(0, event.length);
  framed.set(event, 4);
  return framed;
}

/** In chunks of random lengths. */
async function* chunks(random: Random, bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length;) {
    const end = start + 1 + random(Math.max(1, bytes.length));
    yield await Promise.resolve(bytes.subarray(start, end));
    start = end;
  }
}

/** In protobuf, an object has only what its messages have; the damage comes afterwards. */
function protobufStream(random: Random): Uint8Array {
  const events = Array.from({ length: 1 + random(3) }, () => {
    const type = pick(random, TYPES);
    return damage(
      random,
      frame(damage(random, encodeEvent(type, encodeObject(anyObject(random))))),
    );
  });
  return new Uint8Array(events.flatMap((event) => [...event]));
}

function jsonStream(random: Random): Uint8Array {
  const lines = Array.from({ length: 1 + random(3) }, () => {
    const object = mutate(random, anyObject(random));
    return `${JSON.stringify({ type: pick(random, TYPES), object })}\n`;
  });
  return damage(random, new TextEncoder().encode(lines.join("")));
}

/**
 * Reads a damaged watch stream, and makes rules of what it gives.
 *
 * @param random what it is follows from it
 * @throws {Error} where anything but an error of the stream comes of it
 */
export async function fuzzStream(random: Random): Promise<void> {
  const isProtobuf = random(2) === 0;
  const bytes = isProtobuf ? protobufStream(random) : jsonStream(random);
  const pieces: AsyncIterable<readonly (string | Uint8Array)[]> = isProtobuf
    ? splitFrames(chunks(random, bytes))
    : splitLines(chunks(random, bytes));
  const objects: ApiObject[] = [];
  try {
    for await (const some of pieces) {
      for (const piece of some) take(piece, objects);
    }
  } catch (error) {
    if (!EXPECTED.some((each) => error instanceof each)) throw error;
    assertHarmless([(error as Error).message]);
  }
  // Whose objects they are is for the API server to say: damage must not give them another's name.
  checkObjects(objects.filter(({ metadata }) => isHostileName(metadata)));
}

function take(piece: string | Uint8Array, objects: ApiObject[]): void {
  const event = parseWatchEvent(piece);
  if (event?.type !== "changed") return;
  const object = event.object as ApiObject;
  for (const kind of ["Service", "EndpointSlice", "Node", "ServiceCIDR"] as const) {
    const decoded = createDecoder()(kind, object);
    if (decoded.type === "refuse") assertHarmless([decoded.key, decoded.reason]);
    if (decoded.type === "upsert" && kindOf(object) === undefined) {
      objects.push({ ...object, kind });
      break;
    }
  }
  if (kindOf(object) !== undefined) objects.push(object);
}

function isHostileName(metadata: unknown): boolean {
  return (metadata as { readonly namespace?: unknown } | undefined)?.namespace === "evil" &&
    (metadata as { readonly creationTimestamp?: unknown }).creationTimestamp ===
      "2026-01-01T00:00:00Z";
}

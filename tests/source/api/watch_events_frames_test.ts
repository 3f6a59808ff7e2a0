import { assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { WatchError } from "../../../lib/source/api/failure.ts";
import { splitFrames } from "../../../lib/source/api/watch_events.ts";
import { chunks, cutBy } from "./streams.ts";

async function split(parts: Iterable<Uint8Array>, maxFrame?: number): Promise<Uint8Array[]> {
  const frames: Uint8Array[] = [];
  const options = maxFrame === undefined ? {} : { maxFrame };
  for await (const batch of splitFrames(chunks(parts), options)) {
    frames.push(...batch.map((frame) => frame.slice()));
  }
  return frames;
}

function framed(...frames: readonly (readonly number[])[]): Uint8Array {
  return new Uint8Array(frames.flatMap((frame) => [0, 0, 0, frame.length, ...frame]));
}

Deno.test("frames are the same however the stream is cut into chunks", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.nat(255), { maxLength: 20 })),
      fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
      async (frames, sizes) => {
        const found = await split(cutBy(framed(...frames), sizes));
        assertEquals(found.map((frame) => [...frame]), frames);
      },
    ),
    { numRuns: 200 },
  );
});

Deno.test("half a frame at the end and a frame too long are errors", async () => {
  const whole = framed([1, 2, 3]);
  for (const length of [1, 4, 6]) {
    await assertRejects(() => split([whole.slice(0, length)]), WatchError, "within a frame");
  }
  await assertRejects(() => split([framed([1, 2, 3])], 2), WatchError, "longer than 2");
  const html = new TextEncoder().encode("<html>");
  await assertRejects(() => split([html]), WatchError, "longer than 16777216");
});

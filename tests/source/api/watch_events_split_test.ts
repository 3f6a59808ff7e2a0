/** Streams are split into lines of JSON, or into frames of protobuf. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { WatchError } from "../../../lib/source/api/failure.ts";
import { splitFrames, splitLines } from "../../../lib/source/api/watch_events.ts";
import { chunks, cutBy } from "./streams.ts";

async function linesOf(parts: Iterable<Uint8Array>, maxLine = 100_000): Promise<string[]> {
  return (await Array.fromAsync(splitLines(chunks(parts), { maxLine }))).flat();
}

async function framesOf(
  parts: Iterable<Uint8Array>,
  options: { readonly maxFrame?: number } = {},
): Promise<number[][]> {
  const frames: number[][] = [];
  for await (const batch of splitFrames(chunks(parts), options)) {
    frames.push(...batch.map((frame) => [...frame]));
  }
  return frames;
}

function framed(...frames: readonly (readonly number[])[]): Uint8Array {
  return new Uint8Array(frames.flatMap((frame) => [0, 0, 0, frame.length, ...frame]));
}

const bytes = (text: string) => new TextEncoder().encode(text);
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const sizesOfChunks = fc.infiniteStream(fc.integer({ min: 1, max: 9 }));

Deno.test("frames are the same however the stream is cut into chunks", async () => {
  const frames = fc.array(fc.array(fc.nat(255), { maxLength: 20 }));
  const property = fc.asyncProperty(frames, sizesOfChunks, async (frames, sizes) => {
    assertEquals(await framesOf(cutBy(framed(...frames), sizes)), frames);
  });
  await fc.assert(property, { numRuns: 200 });
});

Deno.test("lines are the same however the stream is cut into chunks", async () => {
  const line = fc.string({ unit: "binary", minLength: 1 }).filter((line) => !/[\r\n]/.test(line));
  const property = fc.asyncProperty(fc.array(line), sizesOfChunks, async (lines, sizes) => {
    const stream = bytes(lines.map((line) => `${line}\n`).join(""));
    const expected = lines.map((line) => decoder.decode(bytes(line)));
    assertEquals(await linesOf(cutBy(stream, sizes)), expected);
  });
  await fc.assert(property, { numRuns: 200 });
});

Deno.test("half a frame at the end and a frame too long are errors", async () => {
  const whole = framed([1, 2, 3]);
  for (const length of [1, 4, 6]) {
    await assertRejects(() => framesOf([whole.slice(0, length)]), WatchError, "within a frame");
  }
  await assertRejects(() => framesOf([whole], { maxFrame: 2 }), WatchError, "longer than 2");
  await assertRejects(() => framesOf([bytes("<html>")]), WatchError, "longer than 16777216");
});

Deno.test("half a line at the end, a line too long and broken UTF-8 are errors", async () => {
  await assertRejects(() => linesOf([bytes("a\nb")]), WatchError, "within a line");
  await assertRejects(() => linesOf([bytes("abc"), bytes("defg")], 6), WatchError, "longer than 6");
  await assertRejects(() => linesOf([new Uint8Array([0xff, 0x0a])]), WatchError, "not valid UTF-8");
});

Deno.test("the lines that a chunk completes come together, empty ones not at all", async () => {
  const parts = ["a\n\r\nb\nc", "d\n", "\n"].map(bytes);
  const batches: unknown = await Array.fromAsync(splitLines(chunks(parts)));
  assertEquals(batches, [["a", "b"], ["cd"]]);
});

Deno.test("what came before a bad line is not lost", async () => {
  const seen: string[] = [];
  const error = await (async () => {
    for await (const batch of splitLines(chunks([bytes("a\n"), bytes("b")]))) seen.push(...batch);
  })().catch((cause: unknown) => cause);
  assert(error instanceof WatchError);
  assertEquals(seen, ["a"]);
});

import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { WatchError } from "../../../lib/source/api/failure.ts";
import { splitLines } from "../../../lib/source/api/watch_events.ts";
import { chunks, cutBy } from "./streams.ts";

async function split(parts: Iterable<Uint8Array>, maxLine?: number): Promise<string[]> {
  const lines: string[] = [];
  const options = maxLine === undefined ? {} : { maxLine };
  for await (const batch of splitLines(chunks(parts), options)) lines.push(...batch);
  return lines;
}

const bytes = (text: string) => new TextEncoder().encode(text);
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

Deno.test("lines are the same however the stream is cut into chunks", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: "binary", minLength: 1 }).filter((line) => !/[\r\n]/.test(line))),
      fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
      async (lines, sizes) => {
        const stream = bytes(lines.map((line) => `${line}\n`).join(""));
        const expected = lines.map((line) => decoder.decode(bytes(line)));
        assertEquals(await split(cutBy(stream, sizes)), expected);
      },
    ),
    { numRuns: 200 },
  );
});

Deno.test("the lines that a chunk completes come together, empty ones not at all", async () => {
  const batches: (readonly string[])[] = [];
  const parts = ["a\n\r\nb\nc", "d\n", "\n"].map(bytes);
  for await (const batch of splitLines(chunks(parts))) batches.push(batch);
  assertEquals(batches, [["a", "b"], ["cd"]]);
});

Deno.test("half a line at the end, a line too long and broken UTF-8 are errors", async () => {
  await assertRejects(() => split([bytes("a\nb")]), WatchError, "within a line");
  await assertRejects(() => split([bytes("abc"), bytes("defg")], 6), WatchError, "longer than 6");
  await assertRejects(() => split([new Uint8Array([0xff, 0x0a])]), WatchError, "not valid UTF-8");
});

Deno.test("what came before a bad line is not lost", async () => {
  const seen: string[] = [];
  const error = await (async () => {
    for await (const batch of splitLines(chunks([bytes("a\n"), bytes("b")]))) seen.push(...batch);
  })().catch((cause: unknown) => cause);
  assert(error instanceof WatchError);
  assertEquals(seen, ["a"]);
});

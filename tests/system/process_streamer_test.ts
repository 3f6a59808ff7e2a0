import { assertEquals } from "@std/assert";
import { denoStreamer } from "../../lib/system/process.ts";

async function linesOf(script: string): Promise<string[]> {
  const lines = denoStreamer.lines(["sh", "-c", script], new AbortController().signal);
  return await Array.fromAsync(lines);
}

Deno.test("lines come whole, however they are cut", async () => {
  const script = "printf 'a\\nb'; sleep 0.05; printf 'c\\n\\nd'";
  assertEquals(await linesOf(script), ["a", "bc", ""]);
});

Deno.test("a long line comes whole", async () => {
  const [line = ""] = await linesOf("head -c 500000 /dev/zero | tr '\\0' x; echo");
  assertEquals(line.length, 500_000);
});

Deno.test("a line without end ends the program", async () => {
  assertEquals(await linesOf("echo a; exec tr '\\0' x < /dev/zero"), ["a"]);
});

Deno.test("where it is over before it began, no program is started", async () => {
  const lines = denoStreamer.lines(["sh", "-c", "echo a; exec sleep 1000"], AbortSignal.abort());
  assertEquals(await Array.fromAsync(lines), []);
});

Deno.test("a program ends with its signal", async () => {
  const over = new AbortController();
  const heard: string[] = [];
  for await (
    const line of denoStreamer.lines(["sh", "-c", "echo a; exec sleep 1000"], over.signal)
  ) {
    heard.push(line);
    over.abort();
  }
  const { signal } = new AbortController();
  for await (const line of denoStreamer.lines(["sh", "-c", "echo b; exec sleep 1000"], signal)) {
    heard.push(line);
    break;
  }
  assertEquals(heard, ["a", "b"]);
});

import { assertEquals } from "@std/assert";
import { writeArchive } from "../../../tools/kernels/archive.ts";

Deno.test("an archive has each entry's header, name and content on multiples of four bytes", () => {
  const content = new TextEncoder().encode("hello");
  const bytes = writeArchive([{ path: "bin" }, { path: "bin/x", content }]);
  assertEquals(bytes.length % 4, 0);
  const text = new TextDecoder("latin1").decode(bytes);
  const heads = [...text.matchAll(/070701/g)].map(({ index }) => index);
  assertEquals(heads.map((at) => at % 4), [0, 0, 0]);
  const field = (head: number, i: number) =>
    parseInt(text.slice((heads[head] ?? 0) + 6 + 8 * i, (heads[head] ?? 0) + 14 + 8 * i), 16);
  assertEquals([field(0, 1), field(0, 6), field(0, 11)], [0o040755, 0, 4]);
  assertEquals([field(1, 1), field(1, 6), field(1, 11)], [0o100755, 5, 6]);
  assertEquals(text.slice((heads[1] ?? 0) + 110, (heads[1] ?? 0) + 121), "bin/x\0hello");
  assertEquals(text.slice((heads[2] ?? 0) + 110, (heads[2] ?? 0) + 121), "TRAILER!!!\0");
});

import { assertEquals } from "@std/assert";
import { parseHead } from "../../../lib/model/ports/http_head.ts";

Deno.test("spaces and tabs around a field's value are no part of it, those within it are", () => {
  for (const host of ["node", " \t node\t ", "node "]) {
    const head = parseHead(`GET / HTTP/1.1\r\nHost:${host}`);
    assertEquals("request" in head && head.request.host, "node");
  }
  const head = parseHead("GET / HTTP/1.1\r\nHost:\t a \tb\xa0 \r\nConnection: \t");
  assertEquals("request" in head && head.request.host, "a \tb\xa0");
});

// With an expression that tries all ways to share the spaces out, 16 KiB of them take hours, and the
// daemon does nothing else meanwhile: then this test does not end.
Deno.test("a field of nothing but spaces is read in one go, whatever ends it", () => {
  for (const space of [" ", "\t", " \t", "a "]) {
    const field = `A:${space.repeat(16 * 1024 / space.length)}`;
    assertEquals("request" in parseHead(`GET / HTTP/1.1\r\nHost: node\r\n${field}`), true);
    assertEquals(parseHead(`GET / HTTP/1.1\r\nHost: node\r\n${field}\x01`), { status: 400 });
  }
});

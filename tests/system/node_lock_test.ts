import { assertEquals } from "@std/assert";
import { parseHolder } from "../../lib/system/node_lock.ts";

Deno.test("what a holder says of itself is checked before it is shown", () => {
  const good = { pid: 1, version: "0.1.0-rc.1+a", since: "2026-01-02T03:04:05.000Z" };
  assertEquals(parseHolder(JSON.stringify(good) + "\n"), good);
  const bad: readonly unknown[] = [
    { ...good, pid: "1" },
    { ...good, version: "\u001b[2J" },
    { ...good, since: "now\nERROR" },
    {},
    null,
    7,
  ];
  for (const each of bad) assertEquals(parseHolder(JSON.stringify(each)), undefined);
  assertEquals(parseHolder("hello"), undefined);
  assertEquals(parseHolder(""), undefined);
});

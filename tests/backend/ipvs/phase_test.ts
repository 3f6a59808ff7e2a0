import { assertEquals } from "@std/assert";
import {
  advance,
  begin,
  type Look,
  type Progress,
  removed,
} from "../../../lib/backend/ipvs/take_over.ts";

const BEGIN = begin({ now: 1_000, grace: 100_000 });

function look(changes: Partial<Look> = {}): Look {
  return { connections: 0, now: 61_000, ...changes };
}

/** The steps that a sequence of looks leads to. */
function steps(...looks: readonly Partial<Look>[]): string[] {
  let progress: Progress = BEGIN;
  return looks.map((each) => (progress = advance(progress, look(each))).step);
}

Deno.test("it is waited while there are connections, and removed at the end of the grace time", () => {
  assertEquals(
    steps({ connections: 3 }, { connections: 3, now: 100_999 }, { connections: 2, now: 101_000 }),
    ["wait", "wait", "remove"],
  );
});

Deno.test("without a connection it is removed at the second look: one may just be opened", () => {
  assertEquals(steps({}, {}), ["wait", "remove"]);
  assertEquals(steps({}, { connections: 1 }, {}, {}), ["wait", "wait", "wait", "remove"]);
});

Deno.test("for a minute nothing is removed: a kube-proxy that cannot be seen writes its rules again", () => {
  assertEquals(steps({ now: 1_000 }, { now: 6_000 }, { now: 60_999 }, {}), [
    "wait",
    "wait",
    "wait",
    "remove",
  ]);
  // But for those who want less.
  const soon = begin({ now: 1_000, grace: 0 });
  assertEquals(advance(soon, { connections: 1, now: 1_000 }).step, "remove");
});

Deno.test("it is done where nothing is left", () => {
  assertEquals(steps({ connections: undefined }), ["done"]);
});

Deno.test("where connections were ended, resets are sent for a minute", () => {
  const gone = { connections: undefined };
  const before = advance(BEGIN, { connections: 3, now: 101_000 });
  const after = removed(before, 101_000);
  assertEquals(after.step, "reset");
  const next = advance(after, { ...gone, now: 160_999 });
  assertEquals(next.step, "reset");
  assertEquals(advance(next, { ...gone, now: 161_000 }).step, "done");
  assertEquals(removed(BEGIN, 101_000).step, "done");
});

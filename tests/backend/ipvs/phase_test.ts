import { assertEquals } from "@std/assert";
import { advance, begin, type Look, type Progress } from "../../../lib/backend/ipvs/phase.ts";

const BEGIN = begin({ now: 1_000, grace: 10_000 });

function look(changes: Partial<Look> = {}): Look {
  return { connections: 0, now: 2_000, ...changes };
}

/** The steps that a sequence of looks leads to. */
function steps(...looks: readonly Partial<Look>[]): string[] {
  let progress: Progress = BEGIN;
  return looks.map((each) => (progress = advance(progress, look(each))).step);
}

Deno.test("it is waited while there are connections, and removed at the end of the grace time", () => {
  assertEquals(
    steps({ connections: 3 }, { connections: 3, now: 10_999 }, { connections: 2, now: 11_000 }),
    ["wait", "wait", "remove"],
  );
});

Deno.test("without a connection it is removed at the second look: one may just be opened", () => {
  assertEquals(steps({}, {}), ["wait", "remove"]);
  assertEquals(steps({}, { connections: 1 }, {}, {}), ["wait", "wait", "wait", "remove"]);
});

Deno.test("it is done where nothing is left", () => {
  assertEquals(steps({ connections: undefined }), ["done"]);
});

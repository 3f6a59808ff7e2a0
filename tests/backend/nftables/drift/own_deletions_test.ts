import { assertEquals } from "@std/assert";
import {
  type Deletion,
  OwnDeletions,
  parseDeletion,
  WHOLE_TABLE,
} from "../../../../lib/backend/nftables/drift/own_deletions.ts";

const LINES: readonly (readonly [line: string, deletion: Deletion | undefined])[] = [
  ["delete table inet signpost", { kind: "table", name: "" }],
  ["delete chain inet signpost services", { kind: "chain", name: "services" }],
  [
    "delete rule inet signpost nat-postrouting handle 34",
    { kind: "rule", name: "nat-postrouting" },
  ],
  ["delete set inet signpost endpoints-tcp4", { kind: "set", name: "endpoints-tcp4" }],
  ["delete map inet signpost endpoints-tcp4", { kind: "set", name: "endpoints-tcp4" }],
  [
    'delete element inet signpost services4 { 10.96.0.1 . tcp . 80 comment "default/web" : goto x }',
    { kind: "element", name: "services4" },
  ],
  ["destroy chain inet signpost services", { kind: "chain", name: "services" }],
  ["delete set inet signpost __map0", undefined],
  ["delete set inet signpost __set12", undefined],
  ["add element inet signpost services4 { 10.96.0.1 . tcp . 80 : goto x }", undefined],
  ["delete table inet signpost-other", undefined],
  ["delete chain inet signpost-other services", undefined],
  ["delete table ip signpost", undefined],
  ["delete chain ip kube-proxy services", undefined],
  ["# new generation 12 by process 34 (nft)", undefined],
  ["", undefined],
];

for (const [line, deletion] of LINES) {
  Deno.test(`the monitor's line "${line}" is read`, () => {
    assertEquals(parseDeletion(line), deletion);
  });
}

const ELEMENT: Deletion = { kind: "element", name: "services4" };
const RULE: Deletion = { kind: "rule", name: "services" };
const TABLE: Deletion = { kind: "table", name: "" };

/** Which of these deletions are ours, one after the other. */
function take(own: OwnDeletions, ...deletions: readonly Deletion[]): boolean[] {
  return deletions.map((each) => own.take(each));
}

Deno.test("as many deletions as were announced are ours, one more is not", () => {
  const own = new OwnDeletions();
  own.announce(new Map([["element services4", 2]]));
  assertEquals(take(own, ELEMENT, RULE, ELEMENT, ELEMENT), [true, false, true, false]);
});

Deno.test("announcements of several scripts add up", () => {
  const own = new OwnDeletions();
  for (let times = 0; times < 3; times++) own.announce(new Map([["element services4", 1]]));
  assertEquals(take(own, ELEMENT, ELEMENT, ELEMENT, ELEMENT), [true, true, true, false]);
});

Deno.test("what a refused script had announced is somebody else's", () => {
  const own = new OwnDeletions();
  const deletions = new Map([["element services4", 2]]);
  own.announce(deletions);
  own.withdraw(deletions);
  assertEquals(take(own, ELEMENT), [false]);
});

Deno.test("everything in a table that we replace goes with it, until the table itself has gone", () => {
  const own = new OwnDeletions();
  own.announce(new Map([["element services4", 7]]));
  own.announce(WHOLE_TABLE);
  assertEquals(take(own, RULE, ELEMENT, TABLE), [true, true, true]);
  assertEquals(take(own, ELEMENT, TABLE), [false, false]);
});

Deno.test("what was announced after a table is ours still when the monitor lags behind", () => {
  const own = new OwnDeletions();
  own.announce(WHOLE_TABLE);
  own.announce(new Map([["element services4", 1]]));
  own.announce(WHOLE_TABLE);
  own.announce(new Map([["rule services", 1]]));
  assertEquals(take(own, RULE, TABLE, ELEMENT, RULE, TABLE), [true, true, true, true, true]);
  assertEquals(take(own, RULE, RULE, ELEMENT, TABLE), [true, false, false, false]);
});

Deno.test("only the script that was refused is withdrawn", () => {
  const own = new OwnDeletions();
  own.announce(WHOLE_TABLE);
  const refused = new Map([["element services4", 1]]);
  own.announce(refused);
  own.withdraw(refused);
  assertEquals(take(own, TABLE, ELEMENT), [true, false]);
  own.announce(WHOLE_TABLE);
  own.announce(WHOLE_TABLE);
  own.withdraw(WHOLE_TABLE);
  assertEquals(take(own, TABLE, TABLE), [true, false]);
});

Deno.test("nothing is expected after everything was forgotten", () => {
  const own = new OwnDeletions();
  own.announce(WHOLE_TABLE);
  own.settle(WHOLE_TABLE);
  own.clear();
  assertEquals(take(own, ELEMENT, TABLE), [false, false]);
});

Deno.test("a script that is under way is expected after what was deleted is forgotten", () => {
  const own = new OwnDeletions();
  own.announce(WHOLE_TABLE);
  own.settle(WHOLE_TABLE);
  own.announce(new Map([["element services4", 1]]));
  own.clear();
  assertEquals(take(own, TABLE, ELEMENT, ELEMENT), [false, true, false]);
});

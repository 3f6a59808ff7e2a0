import { assertEquals } from "@std/assert";
import { type Delta, NOTHING } from "../../../lib/backend/nftables/delta.ts";
import { element, type Slots } from "../../../lib/backend/nftables/table.ts";
import { tableSet } from "../../../lib/backend/nftables/sets.ts";
import { DeferredDeletes } from "../../../lib/backend/nftables/dataplane.ts";

const set = tableSet("endpoints", { frontend: "vip", family: 4, protocol: "tcp" });

function slot(number: number) {
  const frontend = { type: "frontend", address: "10.96.0.1", protocol: "tcp", port: 80 } as const;
  return element(set, { type: "slot", frontend, slot: number }, { data: `10.0.0.${number} . 80` });
}

const slots = (...numbers: readonly number[]) => numbers.map(slot);
const deleting = (...numbers: readonly number[]): Delta => ({
  ...NOTHING,
  deleteElements: slots(...numbers),
});

Deno.test("a step deletes a share of its elements", () => {
  const deferred = new DeferredDeletes();
  assertEquals(deferred.limit(deleting(0, 1, 2, 3, 4), 2).deleteElements, slots(0, 1));
  assertEquals(deferred.limit(NOTHING, 2).deleteElements, slots(2, 3));
  assertEquals(deferred.limit(NOTHING, 2).deleteElements, slots(4));
  assertEquals(deferred.isEmpty, true);
});

Deno.test("every second step with changes of its own deletes elements that wait", () => {
  const deferred = new DeferredDeletes();
  deferred.limit(deleting(0, 1, 2), 1);
  const steps = [7, 8, 9].map((number) => deferred.limit(deleting(number), 3).deleteElements);
  assertEquals(steps, [slots(7, 1, 2), slots(8), slots(9)]);
});

Deno.test("a step that adds a waiting element deletes the old one", () => {
  const deferred = new DeferredDeletes();
  deferred.limit(deleting(0, 1, 2), 1);
  const { deleteElements } = deferred.limit({ ...NOTHING, addElements: slots(2) }, 1);
  assertEquals(deleteElements, slots(2));
  assertEquals(deferred.limit(NOTHING, 9).deleteElements, slots(1));
});

/** The slots of a frontend that is gone, from the first one on. */
const slotsOf = (first: number, count: number): Slots => ({
  type: "slots",
  set,
  key: { type: "frontend", address: "10.96.0.1", protocol: "tcp", port: 80 },
  first,
  destinations: Array.from({ length: count }, (_, i) => ({
    address: `10.0.0.${first + i}`,
    port: 80,
    local: false,
    hairpin: false,
  })),
});

Deno.test("the slots of a frontend that is gone are deleted in shares", () => {
  const deferred = new DeferredDeletes();
  const gone = { ...NOTHING, deleteElements: [slotsOf(0, 7)] };
  assertEquals(deferred.limit(gone, 3).deleteElements, [slotsOf(0, 3)]);
  assertEquals(deferred.limit(NOTHING, 3).deleteElements, [slotsOf(3, 3)]);
  assertEquals(deferred.limit(NOTHING, 3).deleteElements, [slotsOf(6, 1)]);
  assertEquals(deferred.isEmpty, true);
});

Deno.test("a frontend that comes again deletes the old slots that it takes", () => {
  const deferred = new DeferredDeletes();
  deferred.limit({ ...NOTHING, deleteElements: [slotsOf(0, 7)] }, 3);
  const again = { ...NOTHING, addElements: [slotsOf(0, 5)] };
  assertEquals(deferred.limit(again, 2).deleteElements, slots(3, 4));
  assertEquals(deferred.limit(NOTHING, 9).deleteElements, slots(5, 6));
});

Deno.test("a frontend that moves to another service port deletes the slots that it takes", () => {
  const deferred = new DeferredDeletes();
  const moved = { ...NOTHING, deleteElements: [slotsOf(0, 4)], addElements: [slotsOf(0, 2)] };
  assertEquals(deferred.limit(moved, 1).deleteElements, slots(0, 1));
  assertEquals(deferred.limit(NOTHING, 9).deleteElements, slots(2, 3));
});

Deno.test("an element that packets reach is deleted at once", () => {
  const services = tableSet("services", { frontend: "vip", family: 4 });
  const frontends = [1, 2, 3].map((port) =>
    element(services, { type: "frontend", address: "10.96.0.1", protocol: "tcp", port })
  );
  const deferred = new DeferredDeletes();
  const step = { ...NOTHING, deleteElements: frontends };
  assertEquals(deferred.limit(step, 1).deleteElements, frontends);
  assertEquals(deferred.isEmpty, true);
});

Deno.test("waiting elements go with their map", () => {
  const deferred = new DeferredDeletes();
  deferred.limit(deleting(0, 1, 2), 1);
  assertEquals(deferred.limit({ ...NOTHING, deleteSets: [set] }, 9).deleteElements, []);
  assertEquals(deferred.isEmpty, true);
});

const ranges = tableSet("sourceRanges", { family: 4, protocol: "tcp" });
const vip = { type: "frontend", address: "203.0.113.1", protocol: "tcp", port: 80 } as const;
const firewall = element(tableSet("firewalls", { family: 4 }), vip, { data: "goto check" });
const sourceRanges = (...numbers: readonly number[]) =>
  numbers.map((number) =>
    element(ranges, { type: "sourceRange", frontend: vip, range: `10.0.${number}.0/24` })
  );

Deno.test("source ranges wait once their frontend is not checked", () => {
  const deferred = new DeferredDeletes();
  const step = { ...NOTHING, deleteElements: [firewall, ...sourceRanges(1, 2, 3)] };
  assertEquals(deferred.limit(step, 2).deleteElements, [firewall, ...sourceRanges(1)]);
  assertEquals(deferred.limit(NOTHING, 9).deleteElements, sourceRanges(2, 3));
});

Deno.test("source ranges of a frontend that is checked are deleted at once", () => {
  const deferred = new DeferredDeletes();
  const moved = { ...firewall, comment: "shop/other:http" };
  for (const addElements of [[], [moved]]) {
    const deleteElements = [...addElements.length > 0 ? [firewall] : [], ...sourceRanges(1, 2, 3)];
    const step = { ...NOTHING, addElements, deleteElements };
    assertEquals(deferred.limit(step, 1).deleteElements, deleteElements);
  }
  assertEquals(deferred.isEmpty, true);
});

Deno.test("source ranges that wait are deleted before their frontend is checked again", () => {
  const deferred = new DeferredDeletes();
  deferred.limit({ ...NOTHING, deleteElements: [firewall, ...sourceRanges(1, 2, 3)] }, 1);
  const step = { ...NOTHING, addElements: [firewall, ...sourceRanges(2)] };
  assertEquals(deferred.limit(step, 1).deleteElements, sourceRanges(2, 1, 3));
});

Deno.test("elements that nothing leads to go with their set", () => {
  const deferred = new DeferredDeletes();
  const deleteElements = [firewall, ...sourceRanges(1, 2, 3)];
  const step = { ...NOTHING, deleteSets: [ranges], deleteElements };
  assertEquals(deferred.limit(step, 1).deleteElements, [firewall]);
  assertEquals(deferred.isEmpty, true);
});

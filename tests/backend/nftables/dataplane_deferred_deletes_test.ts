import { assertEquals } from "@std/assert";
import { type Delta, NOTHING } from "../../../lib/backend/nftables/delta.ts";
import { element } from "../../../lib/backend/nftables/table.ts";
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

Deno.test("a step deletes a share of its elements, and later steps delete the rest", () => {
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

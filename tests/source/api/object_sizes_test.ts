/** The bounds of the memory that objects take. */
import { assertEquals } from "@std/assert";
import type { ObjectChange } from "../../../lib/model/cluster/objects.ts";
import { ObjectSizes } from "../../../lib/source/api/object_sizes.ts";

/** A change whose object has so many bytes as JSON. */
function change(key: string, bytes: number): ObjectChange {
  const object = "x".repeat(bytes - 2);
  return { type: "upsert", kind: "EndpointSlice", key, object } as unknown as ObjectChange;
}

function list(kept: ObjectSizes, sizes: Readonly<Record<string, number>>): string {
  kept.beginList();
  const types = Object.entries(sizes).map(([key, size]) => kept.list(change(key, size)).type);
  kept.endList();
  return types.join(" ");
}

Deno.test("a namespace has its share of the memory", () => {
  const kept = new ObjectSizes({ all: 100, namespace: 60 });
  assertEquals(
    list(kept, { "a/1": 50, "a/2": 20, "b/1": 50, "c/1": 10 }),
    "upsert refuse upsert refuse",
  );
  const refusals = ["a/3", "c/2"].map((key) => {
    const taken = kept.put(change(key, 15));
    return taken.type === "refuse" ? taken.reason : taken.type;
  });
  assertEquals(refusals, [
    "the EndpointSlice objects of namespace a have more than 60 bytes: delete some of them",
    "the EndpointSlice objects of the cluster have more than 100 bytes: delete some of them",
  ]);
});

Deno.test("an object that shrinks is taken, whatever the others have", () => {
  const kept = new ObjectSizes({ all: 100, namespace: 100 });
  list(kept, { "a/1": 60, "a/2": 40 });
  assertEquals(kept.put(change("a/1", 61)).type, "refuse");
  assertEquals(kept.put(change("a/1", 59)).type, "upsert");
  assertEquals(kept.put(change("a/3", 1 + 1)).type, "refuse");
  kept.remove("a/2");
  assertEquals(kept.put(change("a/3", 41)).type, "upsert");
});

Deno.test("a new object that will not fit is refused before it is decoded", () => {
  const kept = new ObjectSizes({ all: 100, namespace: 100 });
  list(kept, { "a/1": 60 });
  const excess = (key: string) => kept.expectedExcess({ kind: "EndpointSlice", key }, 41);
  assertEquals(excess("a/1"), "", "it may take no more than before");
  const reason = excess("a/2");
  assertEquals(
    reason,
    "the EndpointSlice objects of namespace a have more than 100 bytes: delete some of them",
  );
  const refusal = { type: "refuse", kind: "EndpointSlice", key: "a/2", reason, isExcess: true };
  assertEquals(kept.put(refusal as ObjectChange), { ...refusal, isLogged: false });
  assertEquals(kept.put(change("a/3", 50)), { ...refusal, key: "a/3", isLogged: true });
});

Deno.test("lists that refuse objects do not add up the states that stay", () => {
  const kept = new ObjectSizes({ all: 100, namespace: 100 });
  assertEquals(list(kept, { "a/1": 90 }), "upsert");
  assertEquals(list(kept, { "b/1": 90, "a/1": 90 }), "refuse upsert");
  assertEquals(list(kept, { "c/1": 90, "b/1": 90, "a/1": 95 }), "refuse refuse upsert");
  assertEquals(list(kept, { "b/1": 90 }), "refuse", "during the list, a/1 is there as well");
  assertEquals(list(kept, { "b/1": 90 }), "upsert");
});

Deno.test("a list follows once there is room for what was refused", () => {
  const kept = new ObjectSizes({ all: 100, namespace: 100 });
  list(kept, { "a/1": 60, "a/2": 60 });
  assertEquals(kept.mayTakeMore, false);
  kept.remove("a/1");
  assertEquals(kept.mayTakeMore, true);
  list(kept, { "a/2": 60 });
  assertEquals(kept.mayTakeMore, false);
});

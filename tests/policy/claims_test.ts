import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { Claims } from "../../lib/policy/claims.ts";

const VIP = "192.0.2.1 . tcp . 80";
const OTHER = "192.0.2.2 . tcp . 80";

/** Each claim's holder among these services. */
function holders(claims: Claims, services: readonly string[], claim = VIP): string[] {
  return services.filter((service) => claims.holds(service, claim));
}

Deno.test("who asks alone has it", () => {
  const claims = new Claims();
  assertEquals(claims.set("ns/a", { claims: [VIP], created: 5 }), new Set());
  assertEquals(claims.holds("ns/a", VIP), true);
  assertEquals(claims.holds("ns/a", OTHER), false);
  assertEquals(claims.conflictsOf("ns/a"), []);
});

Deno.test("the oldest has it, in whatever order they come", () => {
  for (const order of [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]]) {
    const claims = new Claims();
    const ages: Record<string, number> = { a: 30, b: 10, c: 20 };
    for (const name of order) claims.set(`ns/${name}`, { claims: [VIP], created: ages[name] ?? 0 });
    assertEquals(holders(claims, ["ns/a", "ns/b", "ns/c"]), ["ns/b"], order.join());
  }
});

Deno.test("among those of one age the first by name has it", () => {
  const claims = new Claims();
  for (const name of ["ns/b", "ns/c", "ns/a", "aa/z"]) {
    claims.set(name, { claims: [VIP], created: 7 });
  }
  assertEquals(holders(claims, ["ns/a", "ns/b", "ns/c", "aa/z"]), ["aa/z"]);
});

Deno.test("who loses is told what, and to whom", () => {
  const claims = new Claims();
  claims.set("ns/old", { claims: [VIP, OTHER], created: 1 });
  claims.set("ns/new", { claims: [OTHER, VIP, "own"], created: 2 });
  assertEquals(claims.conflictsOf("ns/old"), []);
  assertEquals(claims.conflictsOf("ns/new"), [
    { claim: OTHER, holder: "ns/old", loser: "ns/new" },
    { claim: VIP, holder: "ns/old", loser: "ns/new" },
  ]);
  assertEquals(claims.conflictsOf("ns/unknown"), []);
});

Deno.test("of three that ask, the next oldest has it when the holder goes", () => {
  const claims = new Claims();
  claims.set("ns/c", { claims: [VIP], created: 3 });
  claims.set("ns/a", { claims: [VIP], created: 1 });
  claims.set("ns/b", { claims: [VIP], created: 2 });
  const affected = claims.set("ns/a", { claims: [], created: 1 });
  assertEquals(affected, new Set(["ns/b", "ns/c"]));
  assertEquals(holders(claims, ["ns/a", "ns/b", "ns/c"]), ["ns/b"]);
  assertEquals(claims.conflictsOf("ns/c"), [{ claim: VIP, holder: "ns/b", loser: "ns/c" }]);
  claims.set("ns/b", { claims: [], created: 2 });
  assertEquals(holders(claims, ["ns/a", "ns/b", "ns/c"]), ["ns/c"]);
  assertEquals(claims.conflictsOf("ns/c"), []);
});

Deno.test("a holder that asks for something else lets go of what it had", () => {
  const claims = new Claims();
  claims.set("ns/a", { claims: [VIP], created: 1 });
  claims.set("ns/b", { claims: [VIP], created: 2 });
  assertEquals(claims.set("ns/a", { claims: [OTHER], created: 1 }), new Set(["ns/b"]));
  assertEquals(claims.holds("ns/b", VIP), true);
  assertEquals(claims.holds("ns/a", OTHER), true);
});

Deno.test("an older one that comes takes it from the holder", () => {
  const claims = new Claims();
  claims.set("ns/b", { claims: [VIP], created: 2 });
  assertEquals(claims.set("ns/a", { claims: [VIP], created: 1 }), new Set(["ns/b"]));
  assertEquals(claims.holds("ns/b", VIP), false);
});

Deno.test("a Service that asks for a thing twice asks once", () => {
  const claims = new Claims();
  claims.set("ns/a", { claims: [VIP, VIP], created: 1 });
  claims.set("ns/a", { claims: [], created: 1 });
  assertEquals(claims.set("ns/b", { claims: [VIP], created: 2 }), new Set());
  assertEquals(claims.holds("ns/b", VIP), true);
});

Deno.test("at every moment each claim has one holder, the oldest, and who gained or lost is told", () => {
  const names = ["ns/a", "ns/b", "ns/c", "ns/d"];
  const step = fc.record({
    service: fc.constantFrom(...names),
    claims: fc.subarray(["x", "y", "z"]),
    created: fc.nat(2),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
    const claims = new Claims();
    const asked = new Map<string, { readonly claims: readonly string[]; created: number }>();
    for (const { service, ...options } of steps) {
      const held = (name: string) => ["x", "y", "z"].filter((claim) => claims.holds(name, claim));
      const before = new Map(names.map((name) => [name, held(name)]));
      const affected = claims.set(service, options);
      asked.set(service, options);
      for (const claim of ["x", "y", "z"]) {
        const oldest = [...asked].filter(([, each]) => each.claims.includes(claim))
          .sort(([a, x], [b, y]) => x.created - y.created || (a < b ? -1 : 1));
        assertEquals(holders(claims, names, claim), oldest.slice(0, 1).map(([name]) => name));
        for (const [name] of oldest.slice(1)) {
          const conflict = claims.conflictsOf(name).find((each) => each.claim === claim);
          assertEquals(conflict?.holder, oldest[0]?.[0]);
        }
      }
      const told = names.filter((name) => affected.has(name) || name === service);
      const changed = names.filter((name) => `${before.get(name)}` !== `${held(name)}`);
      assertEquals(changed.filter((name) => !told.includes(name)), []);
    }
  }));
});

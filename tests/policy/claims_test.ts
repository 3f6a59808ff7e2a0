import { assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import type { FrontendType } from "../../lib/model/kernel/desired.ts";
import { type Claim, Claims } from "../../lib/policy/claims.ts";

const VIP = "192.0.2.1 . tcp . 80";
const OTHER = "192.0.2.2 . tcp . 80";

/** Claims of external IPs. */
function external(...keys: readonly string[]): Claim[] {
  return keys.map((key) => ({ key, type: "externalIP" }));
}

/** The Service that holds a claim, as one that asks for it last of all is told. */
function holderOf(claims: Claims, claim = VIP): string | undefined {
  const probe = "zz/probe";
  const created = Number.MAX_SAFE_INTEGER;
  claims.set(probe, { claims: external(claim), created });
  const [lost] = claims.conflictsOf(probe);
  claims.set(probe, { claims: [], created });
  return lost?.holder;
}

Deno.test("a Service that loses a claim is named with the holder", () => {
  const claims = new Claims();
  claims.set("ns/old", { claims: external(VIP, OTHER), created: 1 });
  claims.set("ns/new", { claims: external(OTHER, VIP, "own"), created: 2 });
  assertEquals(claims.conflictsOf("ns/old"), []);
  assertEquals(claims.conflictsOf("ns/new"), [
    { claim: OTHER, holder: "ns/old", loser: "ns/new", because: "which is older" },
    { claim: VIP, holder: "ns/old", loser: "ns/new", because: "which is older" },
  ]);
  assertEquals(claims.conflictsOf("ns/unknown"), []);
});

Deno.test("a Service that asks for a thing twice asks once", () => {
  const claims = new Claims();
  claims.set("ns/a", { claims: external(VIP, VIP), created: 1 });
  claims.set("ns/a", { claims: [], created: 1 });
  assertEquals(claims.set("ns/b", { claims: external(VIP), created: 2 }), new Set(["ns/b"]));
  assertEquals(holderOf(claims), "ns/b");
});

const TYPES: readonly FrontendType[] = ["clusterIP", "nodePort", "loadBalancerIP", "externalIP"];

Deno.test("no Service gets what is reserved", () => {
  const claims = new Claims();
  const reserved = { holder: "the API server", because: "which is needed" };
  const claim: Claim = { key: VIP, type: "externalIP", reserved };
  claims.set("ns/a", { claims: [claim], created: 1 });
  claims.set("ns/b", { claims: [claim], created: 2 });
  assertEquals(holderOf(claims), undefined);
  const lost = (service: string) => claims.conflictsOf(service).map(({ holder }) => holder);
  assertEquals([lost("ns/a"), lost("ns/b")], [["the API server"], ["the API server"]]);
  claims.set("ns/c", { claims: [{ key: VIP, type: "clusterIP" }], created: 3 });
  assertEquals(holderOf(claims), "ns/c");
  assertEquals([lost("ns/a"), lost("ns/b"), lost("ns/c")], [["ns/c"], ["ns/c"], []]);
});

Deno.test("a claim on this node's address gives way to another Service's node port", () => {
  const claims = new Claims();
  const key = "IPv4 node port tcp . 30080";
  const claim: Claim = { key: VIP, type: "externalIP", unless: key };
  claims.set("ns/squat", { claims: [claim], created: 1 });
  assertEquals([holderOf(claims), claims.conflictsOf("ns/squat")], ["ns/squat", []]);
  const nodePort: Claim = { key, type: "nodePort" };
  const affected = claims.set("ns/web", { claims: [nodePort], created: 2 });
  assertEquals(affected, new Set(["ns/web", "ns/squat"]));
  assertEquals(claims.conflictsOf("ns/squat"), [{
    claim: VIP,
    holder: "ns/web",
    loser: "ns/squat",
    because: "for a node port comes before an external IP",
  }]);
  assertEquals(claims.set("ns/web", { claims: [], created: 2 }), affected);
  assertEquals([holderOf(claims), claims.conflictsOf("ns/squat")], ["ns/squat", []]);
  claims.set("ns/squat", { claims: [claim, nodePort], created: 1 });
  assertEquals(claims.conflictsOf("ns/squat"), [], "its own node port is no other's");
});

Deno.test("claimants that wait are not touched by what the holder keeps, nor by each other", () => {
  const claims = new Claims();
  const names = Array.from({ length: 4_000 }, (_, i) => `ns/s${i}`);
  const touched = names.map((name, i) =>
    claims.set(name, { claims: external(VIP), created: i }).size
  );
  assertEquals(touched.reduce((sum, each) => sum + each, 0), names.length);
  assertEquals(claims.set("ns/s0", { claims: external(VIP), created: 0 }), new Set());
  assertEquals(claims.set("ns/s9", { claims: [], created: 9 }), new Set(["ns/s9"]));
  assertEquals(claims.set("ns/s0", { claims: [], created: 0 }), new Set(["ns/s0", "ns/s1"]));
});

Deno.test("each claim always has one holder, the oldest", () => {
  const names = ["ns/a", "ns/b", "ns/c", "ns/d"];
  const step = fc.record({
    service: fc.constantFrom(...names),
    keys: fc.subarray(["x", "y", "z"]),
    type: fc.constantFrom(...TYPES),
    created: fc.nat(2),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
    const claims = new Claims();
    const asked = new Map<string, typeof steps[number]>();
    const rank = ({ type }: typeof steps[number]) => TYPES.indexOf(type);
    for (const options of steps) {
      const { service, keys, type, created } = options;
      const held = (name: string) =>
        ["x", "y", "z"].filter((claim) => holderOf(claims, claim) === name);
      const before = new Map(names.map((name) => [name, held(name)]));
      const affected = claims.set(service, { claims: keys.map((key) => ({ key, type })), created });
      asked.set(service, options);
      for (const claim of ["x", "y", "z"]) {
        const oldest = [...asked].filter(([, each]) => each.keys.includes(claim))
          .sort(([a, x], [b, y]) => rank(x) - rank(y) || x.created - y.created || (a < b ? -1 : 1));
        assertEquals(holderOf(claims, claim), oldest[0]?.[0]);
        for (const [name, { type }] of oldest.slice(1)) {
          const conflict = claims.conflictsOf(name).find((each) => each.claim === claim);
          assertEquals(conflict?.holder, oldest[0]?.[0]);
          const because = type === oldest[0]?.[1].type ? /^which is older$/ : / comes before /;
          assertMatch(conflict?.because ?? "", because);
        }
      }
      const told = names.filter((name) => affected.has(name));
      const changed = names.filter((name) => `${before.get(name)}` !== `${held(name)}`);
      assertEquals(changed.filter((name) => !told.includes(name)), []);
    }
  }));
});

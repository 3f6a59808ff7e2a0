import { assertEquals } from "@std/assert";
import type { Destination } from "../../lib/model/kernel/desired.ts";
import { EndpointChoice } from "../../lib/localhost/listeners.ts";
import { destination } from "../support/cluster.ts";

const A = destination("10.0.0.1");
const B = destination("10.0.0.2");
const C = destination("10.0.0.3");

/** Gives these numbers one after the other, and begins again. */
function cycle(...numbers: readonly number[]): () => number {
  let at = 0;
  return () => numbers[at++ % numbers.length] ?? 0;
}

function choice(affinitySeconds: number, endpoints: readonly Destination[] = [A, B, C]) {
  return new EndpointChoice({ endpoints, affinitySeconds }, cycle(0.1, 0.4, 0.9));
}

function first(of: EndpointChoice, now = 0): Destination | undefined {
  const [endpoint] = of.candidates(now);
  return endpoint;
}

Deno.test("a Service without endpoints has no candidate", () => {
  assertEquals([...choice(0, []).candidates(0)], []);
  assertEquals([...choice(10, []).candidates(0)], []);
});

Deno.test("each endpoint is a candidate once", () => {
  assertEquals([...choice(0).candidates(0)], [A, B, C]);
});

Deno.test("five endpoints are tried for one connection at most", () => {
  const many = Array.from({ length: 100 }, (_, i) => destination(`10.0.1.${i}`));
  const picked = [...new EndpointChoice({ endpoints: many, affinitySeconds: 0 }, Math.random)
    .candidates(0)];
  assertEquals([picked.length, new Set(picked).size], [5, 5]);
});

Deno.test("an endpoint that answered is not preferred without affinity", () => {
  const chosen = choice(0);
  chosen.answered(C, 0);
  assertEquals([...chosen.candidates(0)], [A, B, C]);
});

Deno.test("the endpoint that answered comes first with affinity", () => {
  const chosen = choice(10);
  chosen.answered(B, 0);
  assertEquals([...chosen.candidates(1)], [B, A, C]);
});

Deno.test("affinity ends so long after the last connection", () => {
  const chosen = choice(10);
  chosen.answered(B, 0);
  chosen.answered(B, 8_000);
  assertEquals(first(chosen, 18_000), B);
  assertEquals([...chosen.candidates(18_001)][0], A);
});

Deno.test("affinity ends when its endpoint goes", () => {
  const chosen = choice(10);
  chosen.answered(B, 0);
  chosen.update({ endpoints: [destination(B.address), C], affinitySeconds: 10 });
  assertEquals(first(chosen), B);
  chosen.update({ endpoints: [C], affinitySeconds: 10 });
  assertEquals(first(chosen), C);
});

Deno.test("another affinity timeout forgets the endpoint", () => {
  const chosen = choice(10);
  chosen.answered(C, 0);
  chosen.update({ endpoints: [A, B, C], affinitySeconds: 20 });
  assertEquals(first(chosen), A);
});

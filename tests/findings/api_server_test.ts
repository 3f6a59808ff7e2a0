import { assertEquals } from "@std/assert";
import { checkApiServer } from "../../lib/findings/system.ts";
import type { ApiFailure } from "../../lib/findings/facts.ts";
import { factsOf } from "./facts.ts";

function found(failures: readonly ApiFailure[], warnings: readonly string[] = []): unknown[] {
  const apiServer = { where: "https://api:6443", warnings, failures };
  return checkApiServer(factsOf([], { facts: { apiServer } }))
    .map(({ id, what, where }) => [id, what, where]);
}

Deno.test("a server that cannot be reached is one finding, whatever was asked", () => {
  const failures = ["Service", "Node"].map((kind) => ({
    kind,
    message: "connection refused",
    isRefusal: false,
  }));
  assertEquals(found(failures), [
    ["api-server-unreachable", "connection refused", "https://api:6443"],
  ]);
});

Deno.test("each kind that the server refuses is a finding", () => {
  const failures = ["Service", "Node"].map((kind) => ({
    kind,
    message: `${kind}: 403`,
    isRefusal: true,
  }));
  assertEquals(found(failures), [
    ["api-server-refuses", "Service: 403", "Service"],
    ["api-server-refuses", "Node: 403", "Node"],
  ]);
});

Deno.test("an unsafe way to the server is a finding", () => {
  assertEquals(found([], ["insecure-skip-tls-verify is set"]), [
    ["api-access-unsafe", "insecure-skip-tls-verify is set", "https://api:6443"],
  ]);
});

Deno.test("a server that answers is no finding", () => {
  assertEquals(found([]), []);
});

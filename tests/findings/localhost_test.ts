import { assertEquals } from "@std/assert";
import { checkLocalhost } from "../../lib/findings/system.ts";
import { factsOf } from "./facts.ts";

Deno.test("a node port that cannot be opened on loopback is named with its Service", () => {
  const failure = { servicePort: "shop/web:http", address: "::1", port: 30080, error: "taken" };
  const facts = factsOf([], { facts: { localhostFailures: [failure] } });
  const [finding] = checkLocalhost(facts);
  assertEquals(
    [finding?.id, finding?.where, finding?.what, finding?.services],
    [
      "localhost-node-port-taken",
      "[::1]:30080",
      "cannot listen on [::1]:30080 for shop/web:http: taken",
      ["shop/web"],
    ],
  );
});

Deno.test("node ports on loopback that are open are no finding", () => {
  assertEquals(checkLocalhost(factsOf([])), []);
});

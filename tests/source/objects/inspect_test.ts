import { assertEquals } from "@std/assert";
import { podAddresses } from "../../../lib/source/objects/inspect.ts";

const SLICE = {
  metadata: { namespace: "shop", name: "web-1" },
  endpoints: [
    { addresses: ["10.244.0.11"], targetRef: { kind: "Pod", name: "web-0" } },
    { addresses: ["10.244.0.12"], targetRef: { kind: "Node", name: "web-0" } },
    { addresses: ["10.244.0.13"] },
    { addresses: ["FD00:0::14", "\u001b[2J", 7], targetRef: { kind: "Pod", name: "web-0" } },
  ],
};

Deno.test("the addresses of a pod are those of the endpoints that refer to it", () => {
  const at = (namespace: string, name: string) => podAddresses(SLICE, { namespace, name });
  assertEquals(at("shop", "web-0"), ["10.244.0.11", "fd00::14"]);
  assertEquals([at("shop", "web-1"), at("default", "web-0")], [[], []]);
  for (const raw of [null, { endpoints: 7 }, { endpoints: [null, { targetRef: "web-0" }] }]) {
    assertEquals(podAddresses(raw, { namespace: "default", name: "web-0" }), []);
  }
});

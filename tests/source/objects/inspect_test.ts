import { assertEquals } from "@std/assert";
import { endpointPods } from "../../../lib/source/objects/inspect.ts";

const SLICE = {
  metadata: { namespace: "shop", name: "web-1", labels: { "kubernetes.io/service-name": "web" } },
  endpoints: [
    { addresses: ["10.244.0.11"], targetRef: { kind: "Pod", name: "web-0" } },
    { addresses: ["10.244.0.12"], targetRef: { kind: "Node", name: "web-0" } },
    { addresses: ["10.244.0.13"] },
    { addresses: ["FD00:0::14", "\u001b[2J", 7], targetRef: { kind: "Pod", name: "web-0" } },
  ],
};

Deno.test("the pods of a slice are those that its endpoints refer to", () => {
  const pod = { namespace: "shop", name: "web-0", service: "web" };
  assertEquals(endpointPods(SLICE), [
    { ...pod, address: "10.244.0.11" },
    { ...pod, address: "fd00::14" },
  ]);
  for (const raw of [null, { endpoints: 7 }, { endpoints: [null, { targetRef: "web-0" }] }]) {
    assertEquals(endpointPods(raw), []);
  }
});

Deno.test("the name of a pod is printable", () => {
  const named = (name: unknown) =>
    endpointPods({
      endpoints: [{ addresses: ["10.244.0.11"], targetRef: { kind: "Pod", name } }],
    }).map(({ name }) => name);
  assertEquals(named("\u001b[2J"), ["\\u001b[2J"]);
  assertEquals(named("a".repeat(1_000)), ["a".repeat(253)]);
});

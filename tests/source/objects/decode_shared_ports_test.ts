import { assertEquals, assertStrictEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { webSlice } from "../../support/web_service.ts";

const SERVICE = {
  metadata: { namespace: "shop", name: "web" },
  spec: { clusterIP: "10.96.0.10", ports: [{ name: "http", port: 80 }] },
};

const SLICE = webSlice(["10.244.0.7"]);

Deno.test("equal lists of ports are one list in memory", () => {
  const decode = createDecoder();
  const ports = (raw: unknown, kind: "Service" | "EndpointSlice" = "Service") => {
    const decoded = decode(kind, raw);
    return decoded.type === "upsert" ? decoded.object.ports : undefined;
  };
  const other = { metadata: { name: "other" }, spec: { ...SERVICE.spec, clusterIP: "10.96.0.11" } };
  assertStrictEquals(ports(SERVICE), ports(other));
  assertStrictEquals(
    ports(SLICE, "EndpointSlice"),
    ports({ ...SLICE, endpoints: [] }, "EndpointSlice"),
  );
  const inOrder = [{ name: "a", port: 1 }, { name: "b", port: 2 }];
  const lists = [
    [{ name: "http", port: 81 }],
    [{ name: "http2", port: 80 }],
    [{ name: "http", port: 80, protocol: "UDP" }],
    [{ name: "http", port: 80, nodePort: 30_080 }],
    [{ name: "http", port: 80, nodePort: 30_081 }],
    inOrder,
    inOrder.toReversed(),
  ];
  const decoded = lists.map((list) =>
    ports({ ...SERVICE, spec: { ...SERVICE.spec, ports: list } })
  );
  assertEquals(new Set([ports(SERVICE), ...decoded]).size, lists.length + 1);
  assertEquals(decoded[3], [{ name: "http", protocol: "tcp", port: 80, nodePort: 30_080 }]);
});

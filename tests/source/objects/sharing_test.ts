import { assertEquals, assertNotStrictEquals, assertStrictEquals } from "@std/assert";
import type { KindMap } from "../../../lib/model/cluster/objects.ts";
import { createDecoder, type Known, sharing } from "../../../lib/source/objects/decode.ts";
import { webSlice } from "../../support/web_service.ts";
import { decodeGood, withValue } from "./decode_fixture.ts";

const SERVICE = {
  metadata: { namespace: "shop", name: "web" },
  spec: { clusterIP: "10.96.0.10", ports: [{ name: "http", port: 80 }] },
};

const SLICE = webSlice(["10.244.0.7"]);

const knowing = (kinds: Partial<KindMap>): Known => ({
  get: (kind, key) => key.startsWith("shop/web") ? kinds[kind] : undefined,
});

Deno.test("an object that comes as it is known is the known one; another is new", () => {
  const known = {
    Service: decodeGood("Service", SERVICE),
    EndpointSlice: decodeGood("EndpointSlice", SLICE),
  };
  const decode = sharing(createDecoder(), knowing(known));
  for (const [kind, raw] of [["Service", SERVICE], ["EndpointSlice", SLICE]] as const) {
    const again = decode(kind, structuredClone(raw));
    assertStrictEquals(again.type === "object" && again.object, known[kind]);
  }
  const changed = withValue(SLICE, "endpoints[0].conditions.ready", false);
  const other = decode("EndpointSlice", changed);
  assertEquals(other, createDecoder()("EndpointSlice", changed));
  assertNotStrictEquals(other.type === "object" && other.object, known.EndpointSlice);
  const unknown = { ...SERVICE, metadata: { namespace: "shop", name: "api" } };
  assertEquals(decode("Service", unknown), createDecoder()("Service", unknown));
});

Deno.test("what is refused or ignored stays so, whatever is known", () => {
  const decode = sharing(
    createDecoder(),
    knowing({ Service: decodeGood("Service", SERVICE) }),
  );
  const refused = { ...SERVICE, spec: { ...SERVICE.spec, ports: [{ port: 0 }] } };
  assertEquals(decode("Service", refused).type, "refused");
  const headless = { ...SERVICE, spec: { ...SERVICE.spec, clusterIP: "None" } };
  assertEquals(decode("Service", headless).type, "ignored");
});

Deno.test("lists of ports that are alike are one list in memory; with a node port they are not", () => {
  const decode = createDecoder();
  const ports = (raw: unknown, kind: "Service" | "EndpointSlice" = "Service") => {
    const decoded = decode(kind, raw);
    return decoded.type === "object" ? decoded.object.ports : undefined;
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

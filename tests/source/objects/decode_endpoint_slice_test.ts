import { assertEquals, assertStrictEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import type { EndpointSlice } from "../../../lib/model/cluster/objects.ts";
import { decodeGood, SLICE, testOmissions, testRefusals, withValue } from "./decode_fixture.ts";

const SECOND = {
  address: "10.244.0.3",
  nodeName: undefined,
  ready: true,
  serving: true,
  terminating: false,
  zoneHints: [],
  nodeHints: [],
};

Deno.test("of an EndpointSlice everything that rules need is kept, in canonical form", () => {
  const expected: EndpointSlice = {
    namespace: "shop",
    name: "web-x7k2p",
    serviceName: "web",
    family: 4,
    ports: [
      { name: "http", protocol: "tcp", port: 8080 },
      { name: "dns", protocol: "udp", port: 53 },
    ],
    endpoints: [
      {
        address: "10.244.0.1",
        nodeName: "node-1",
        ready: false,
        serving: true,
        terminating: true,
        zoneHints: ["zone-a", "zone-b"],
        nodeHints: ["node-1"],
      },
      SECOND,
    ],
    lastChangeTriggerTime: Date.UTC(2026, 0, 2, 3, 4, 5),
  };
  const decoded = createDecoder()("EndpointSlice", SLICE);
  assertEquals(decoded, {
    type: "upsert",
    kind: "EndpointSlice",
    key: "shop/web-x7k2p",
    object: expected,
  });
});

Deno.test("null fields of a slice are read as absent", () => {
  const [first] = decodeGood("EndpointSlice", {
    ...SLICE,
    endpoints: [{
      addresses: ["10.244.0.3"],
      conditions: { ready: null, serving: null, terminating: null },
      nodeName: null,
      hints: null,
    }],
  }).endpoints;
  assertEquals(first, SECOND);
  const empty = decodeGood("EndpointSlice", { ...SLICE, ports: null, endpoints: null });
  assertEquals([empty.ports, empty.endpoints], [[], []]);
});

Deno.test("a slice of IPv6 addresses is of family 6", () => {
  const raw = { ...SLICE, addressType: "IPv6", endpoints: [{ addresses: ["FD00::0:1"] }] };
  const { family, endpoints } = decodeGood("EndpointSlice", raw);
  assertEquals([family, endpoints[0]?.address], [6, "fd00::1"]);
});

Deno.test("a port without a number is left out, the others stay", () => {
  const ports = [{ name: "all", port: null }, { name: "none" }, { port: 80 }];
  assertEquals(decodeGood("EndpointSlice", { ...SLICE, ports }).ports, [
    { name: "", protocol: "tcp", port: 80 },
  ]);
});

Deno.test("strings that recur are one string in memory", () => {
  const decode = createDecoder();
  const nodeNameOf = (name: string) => {
    const decoded = decode(
      "EndpointSlice",
      JSON.parse(JSON.stringify({ ...SLICE, metadata: { ...SLICE.metadata, name } })),
    );
    return decoded.type === "upsert" ? decoded.object.endpoints[0]?.nodeName : undefined;
  };
  assertStrictEquals(nodeNameOf("web-1"), nodeNameOf("web-2"));
});

const IGNORED: readonly (readonly [why: string, path: string, value: unknown])[] = [
  ["of no Service", "metadata.labels", undefined],
  ["of a Service without a name", 'metadata.labels["kubernetes.io/service-name"]', ""],
  ["of a headless Service", 'metadata.labels["service.kubernetes.io/headless"]', ""],
  ["of another proxy", 'metadata.labels["service.kubernetes.io/service-proxy-name"]', "other"],
  ["of host names", "addressType", "FQDN"],
];

for (const [why, path, value] of IGNORED) {
  Deno.test(`an EndpointSlice makes no rules and no warning: ${why}`, () => {
    const decoded = createDecoder()("EndpointSlice", withValue(SLICE, path, value));
    assertEquals(decoded, { type: "delete", kind: "EndpointSlice", key: "shop/web-x7k2p" });
  });
}

Deno.test("a slice without room is refused before its endpoints are read", () => {
  const endpoints = Array.from({ length: 1_000 }, () => ({
    get addresses(): string[] {
      throw new Error("the endpoint was read");
    },
  }));
  const asked: unknown[] = [];
  const excess = (...size: unknown[]) => {
    asked.push(size);
    return "too much";
  };
  const decoded = createDecoder()("EndpointSlice", { ...SLICE, endpoints }, excess);
  const refusal = { type: "refuse", kind: "EndpointSlice", key: "shop/web-x7k2p" } as const;
  assertEquals(decoded, { ...refusal, reason: "too much", isExcess: true });
  assertEquals(asked, [["shop/web-x7k2p", 120_000]]);
});

const NAME_RULE = "must be a DNS name of lower-case letters, digits, '-' and '.'";
const PORT_RULE = "must be a number from 1 to 65535";
const SPECIAL_RULE =
  "must not be a loopback, link-local, unspecified, multicast or broadcast address";
const TYPE_RULE = "must be IPv4 or IPv6 or FQDN";

testOmissions("EndpointSlice", SLICE, [
  ["ports[0]", 80, "must be an object"],
  ["ports[0].port", 0, PORT_RULE],
  ["ports[1].port", 70000, PORT_RULE],
  ["ports[1].port", "53", PORT_RULE],
  ["ports[0].name", "Http", NAME_RULE],
  ["ports[0].protocol", "QUIC", "must be TCP or UDP or SCTP"],
  ["endpoints[1]", null, "endpoints[1].addresses[0] must be an IP address, is null"],
  ["endpoints[1]", "10.0.0.1", "must be an object"],
  ["endpoints[1].addresses", [], "endpoints[1].addresses[0] must be an IP address, is null"],
  ["endpoints[1].addresses", "10.0.0.1", "must be a list"],
  ["endpoints[0].addresses[0]", "10.244.0.1 }", "must be an IP address"],
  ["endpoints[0].addresses[0]", "fd00::1", "must be an IPv4 address"],
  ["endpoints[0].addresses[0]", "169.254.1.1", SPECIAL_RULE],
  ["endpoints[0].addresses[0]", "239.1.1.1", SPECIAL_RULE],
  ["endpoints[0].addresses[0]", "255.255.255.255", SPECIAL_RULE],
  ["endpoints[0].addresses[0]", "0.1.2.3", SPECIAL_RULE],
  ["endpoints[0].addresses[0]", "::ffff:239.1.1.1", SPECIAL_RULE],
  ["endpoints[0].conditions.ready", "true", "must be true or false"],
  ["endpoints[0].conditions.serving", 1, "must be true or false"],
  ["endpoints[0].conditions.terminating", {}, "must be true or false"],
  ["endpoints[0].nodeName", "node 1", NAME_RULE],
  ["endpoints[0].hints", [], "must be an object"],
  ["endpoints[0].hints.forZones", {}, "must be a list"],
  ["endpoints[0].hints.forZones[1]", "zone-b", "must be an object"],
  ["endpoints[0].hints.forZones[0].name", 5, "must be a string"],
  ["endpoints[0].hints.forNodes[0].name", "node\u001b[31m", "must be the value of a label"],
]);

testRefusals("EndpointSlice", SLICE, [
  ["addressType", undefined, 'addressType must be IPv4 or IPv6 or FQDN, is "missing"'],
  ["addressType", "", 'addressType must be IPv4 or IPv6 or FQDN, is "missing"'],
  ["addressType", "IPv5", TYPE_RULE],
  ["addressType", 4, "must be a string"],
  ["ports", {}, "must be a list"],
  ["endpoints", "x", "must be a list"],
  ['metadata.labels["kubernetes.io/service-name"]', "we/b", NAME_RULE],
]);

Deno.test("an address of the other family is left out of a slice of IPv6 addresses too", () => {
  for (const address of ["10.0.0.1", "::ffff:10.0.0.1"]) {
    const raw = { ...SLICE, addressType: "IPv6", endpoints: [{ addresses: [address] }] };
    const { endpoints, omitted } = decodeGood("EndpointSlice", raw);
    assertEquals(endpoints, []);
    assertEquals(omitted, [`endpoints[0].addresses[0] must be an IPv6 address, is "${address}"`]);
  }
});

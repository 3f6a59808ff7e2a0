/** Cases of kube-proxy's own unit tests about single entries of objects, by the names that they have there. */
import { assertEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { decodeGood, type Json, withValue } from "./decode_fixture.ts";

const SERVICE: Json = {
  metadata: { namespace: "shop", name: "web" },
  spec: { type: "LoadBalancer", clusterIP: "10.96.0.10", ports: [{ name: "http", port: 80 }] },
};

const SLICE: Json = {
  metadata: { namespace: "shop", name: "web-1", labels: { "kubernetes.io/service-name": "web" } },
  addressType: "IPv4",
  ports: [{ name: "http", port: 8080 }],
  endpoints: [{ addresses: ["10.244.0.11"] }],
};

function externalIPs(entries: readonly unknown[]): readonly string[] {
  return decodeGood("Service", withValue(SERVICE, "spec.externalIPs", entries)).externalIPs;
}

function sourceRanges(entries: readonly unknown[]): readonly string[] {
  const raw = withValue(SERVICE, "spec.loadBalancerSourceRanges", entries);
  return decodeGood("Service", raw).sourceRanges;
}

Deno.test("TestMapIPsByIPFamily: entries that are not an address are skipped", () => {
  assertEquals(externalIPs(["1.2.3.4", "", "fd00::1"]), ["1.2.3.4", "fd00::1"]);
  assertEquals(externalIPs(["", "not an address", "1.2.3.4/32", "1.2.3.4"]), ["1.2.3.4"]);
  assertEquals(externalIPs([""]), []);
});

Deno.test("TestMapCIDRsByIPFamily: entries that are not a range are skipped", () => {
  assertEquals(sourceRanges(["10.20.30.0/24", "", "fd00::/64"]), ["10.20.30.0/24", "fd00::/64"]);
  assertEquals(sourceRanges(["10.20.30.40", "10.20.30.0/24"]), ["10.20.30.0/24"]);
  assertEquals(sourceRanges(["", " "]), []);
});

Deno.test("a Service whose source ranges cannot be read is refused", () => {
  const raw = withValue(SERVICE, "spec.loadBalancerSourceRanges", ["10.0.0.0/8x", ""]);
  assertEquals(createDecoder()("Service", raw), {
    type: "refuse",
    kind: "Service",
    key: "shop/web",
    reason: "spec.loadBalancerSourceRanges must hold a readable CIDR, " +
      'or every source would have access, is ["10.0.0.0/8x",""]; ' +
      'spec.loadBalancerSourceRanges[0] must be a CIDR, is "10.0.0.0/8x"; ' +
      'spec.loadBalancerSourceRanges[1] must be a CIDR, is ""',
  });
});

const PLACES = ["Zone_A", "DC1", "AZ_1", "a.b", "", "zone-a", "0", `a${"-".repeat(61)}b`];

Deno.test('discovery validation (API) zone hint "Zone_A": hints are any value of a label', () => {
  for (const name of PLACES) {
    const hints = { forZones: [{ name }], forNodes: [{ name }] };
    const slice = decodeGood("EndpointSlice", {
      ...SLICE,
      endpoints: [{ addresses: ["10.244.0.11"], hints }],
    });
    assertEquals(slice.endpoints[0]?.zoneHints, [name]);
    assertEquals(slice.endpoints[0]?.nodeHints, [name]);
    assertEquals(slice.omitted, undefined);
    const labels = { "topology.kubernetes.io/zone": name };
    assertEquals(decodeGood("Node", { metadata: { name: "node-1", labels } }).zone, name);
  }
});

Deno.test("a node hint is the name of a node, however long", () => {
  const name = `node.${"x".repeat(240)}`;
  const endpoints = [{ addresses: ["10.244.0.11"], hints: { forNodes: [{ name }] } }];
  const slice = decodeGood("EndpointSlice", { ...SLICE, endpoints });
  assertEquals(slice.endpoints[0]?.nodeHints, [name]);
});

Deno.test("a hint that cannot be used never costs the slice, nor the endpoint", () => {
  for (const hints of ["x", { forZones: [{ name: "a\u001b[31m" }] }]) {
    const endpoints = [{ addresses: ["10.244.0.11"], hints }, { addresses: ["10.244.0.12"] }];
    const slice = decodeGood("EndpointSlice", { ...SLICE, endpoints });
    assertEquals([slice.endpoints.length, slice.endpoints[0]?.zoneHints], [2, []]);
  }
});

Deno.test("a zone that is not the value of a label is left out", () => {
  const labels = { "topology.kubernetes.io/zone": "a\u001b[2J\nforged" };
  const { zone, omitted } = decodeGood("Node", { metadata: { name: "node-1", labels } });
  assertEquals([zone, omitted?.length], ["", 1]);
});

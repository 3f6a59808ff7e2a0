import { assertEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import {
  decodeGood,
  NODE,
  SERVICE_CIDR,
  testOmissions,
  testRefusals,
  withValue,
} from "./decode_fixture.ts";

Deno.test("a Node keeps its addresses, internal ones first", () => {
  assertEquals(createDecoder()("Node", NODE), {
    type: "upsert",
    kind: "Node",
    key: "node-1",
    object: {
      name: "node-1",
      uid: "77ac",
      addresses: ["192.0.2.10", "2001:db8::10", "203.0.113.5"],
      podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"],
      zone: "zone-a",
      deleting: false,
    },
  });
});

Deno.test("a Node that says nothing but its name is taken", () => {
  for (const raw of [{}, { spec: null, status: null }, { status: { addresses: null } }]) {
    assertEquals(decodeGood("Node", { metadata: { name: "node-1" }, ...raw }), {
      name: "node-1",
      uid: "",
      addresses: [],
      podCIDRs: [],
      zone: "",
      deleting: false,
    });
  }
});

Deno.test("without podCIDRs the one podCIDR counts", () => {
  const only = withValue(NODE, "spec.podCIDRs", undefined);
  assertEquals(decodeGood("Node", only).podCIDRs, ["10.244.1.0/24"]);
  assertEquals(decodeGood("Node", withValue(only, "spec.podCIDR", "")).podCIDRs, []);
});

Deno.test("a Node is being deleted once it has a deletion time or the autoscaler's taint", () => {
  const deleting = (path: string, value: unknown) =>
    decodeGood("Node", withValue(NODE, path, value)).deleting;
  assertEquals(deleting("metadata.deletionTimestamp", "2026-01-02T03:04:05Z"), true);
  assertEquals(deleting("metadata.deletionTimestamp", null), false);
  const taint = (key: string) => [{ key: "other", effect: "NoSchedule" }, { key }];
  assertEquals(deleting("spec.taints", taint("ToBeDeletedByClusterAutoscaler")), true);
  assertEquals(deleting("spec.taints", taint("node.kubernetes.io/unschedulable")), false);
});

testOmissions("Node", NODE, [
  ["spec.taints", ["x"], 'spec.taints[0] must be an object, is "x"'],
  ["status.addresses[2]", "192.0.2.10", "must be an object"],
  ["status.addresses[2].address", "192.0.2.300", "must be an IP address"],
  ["spec.podCIDRs[1]", "fd00::", "must be a CIDR"],
  ['metadata.labels["topology.kubernetes.io/zone"]', 5, "must be a string"],
]);

testRefusals("Node", NODE, [
  ["status.addresses", "x", "must be a list"],
  ["spec.taints", {}, "must be a list"],
]);

Deno.test("of a ServiceCIDR its ranges are kept, in canonical form", () => {
  assertEquals(createDecoder()("ServiceCIDR", SERVICE_CIDR), {
    type: "upsert",
    kind: "ServiceCIDR",
    key: "kubernetes",
    object: { name: "kubernetes", cidrs: ["10.96.0.0/12", "fd00:10:96::/112"] },
  });
  assertEquals(decodeGood("ServiceCIDR", { metadata: { name: "empty" } }).cidrs, []);
});

testOmissions("ServiceCIDR", SERVICE_CIDR, [
  ["spec.cidrs[1]", "10.96.0.0", "must be a CIDR"],
  ["spec.cidrs[0]", "10.96.0.0/12 }", "must be a CIDR"],
]);

testRefusals("ServiceCIDR", SERVICE_CIDR, [["spec.cidrs", "10.96.0.0/12", "must be a list"]]);

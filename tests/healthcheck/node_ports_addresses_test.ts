import { assertEquals } from "@std/assert";
import { healthCheckAddresses } from "../../lib/healthcheck/node_ports.ts";
import type { Family } from "../../lib/model/values/address.ts";
import type { NodePortAddresses } from "../../lib/model/kernel/desired.ts";
import { Pipeline } from "../support/pipeline.ts";

const OWN = ["127.0.0.1", "192.0.2.1", "10.0.0.1", "::1", "2001:db8::1", "fe80::1"];
const ALL: NodePortAddresses = { type: "all" };

/** Returns the listen addresses if node ports are on these addresses of each family. */
function addresses(
  families: readonly Family[],
  four: NodePortAddresses,
  six: NodePortAddresses,
  loadBalancerIPs: readonly string[] = [],
): readonly (readonly string[])[] {
  const { node } = new Pipeline().desired;
  return healthCheckAddresses({ families, loadBalancerIPs }, {
    node: {
      ...node,
      families: {
        4: { ...node.families[4], nodePortAddresses: four },
        6: { ...node.families[6], nodePortAddresses: six },
      },
    },
    ownAddresses: OWN,
  });
}

const within = (...cidrs: readonly string[]): NodePortAddresses => ({ type: "cidrs", cidrs });

Deno.test("on all addresses of both families, one socket serves both", () => {
  assertEquals(addresses([4, 6], ALL, ALL), [["::"]]);
  assertEquals(addresses([6], ALL, ALL), [["::"]]);
});

Deno.test("a Service of IPv4 listens on no address of IPv6", () => {
  assertEquals(addresses([4], ALL, ALL), [["0.0.0.0"]]);
  assertEquals(addresses([4], within("10.0.0.0/8"), ALL), [["10.0.0.1"]]);
});

Deno.test("where one family is named, the other does not open all addresses of both", () => {
  assertEquals(addresses([4, 6], within("10.0.0.0/8"), ALL), [
    ["10.0.0.1"],
    ["2001:db8::1", "::1"],
  ]);
  assertEquals(addresses([4, 6], ALL, within("2001:db8::/32")), [["0.0.0.0"], ["2001:db8::1"]]);
});

Deno.test("addresses of a link are left out", () => {
  assertEquals(addresses([4, 6], within(), within("fe80::/10", "2001:db8::/32")), [
    ["2001:db8::1"],
  ]);
});

Deno.test("TestServerWithSelectiveListeningAddress: 127.0.0.0/8 is 127.0.0.1 alone", () => {
  assertEquals(addresses([4], within("127.0.0.0/8"), ALL), [["127.0.0.1"]]);
});

Deno.test("a load-balancer IP is listened on by itself, if not all addresses are open", () => {
  const vips = ["192.0.2.1", "2001:db8::1", "203.0.113.50", "2001:db8::50"];
  assertEquals(addresses([4, 6], within("10.0.0.0/8"), within(), vips), [
    ["10.0.0.1"],
    ...vips.map((each) => [each]),
  ]);
  assertEquals(addresses([4], within("192.0.2.0/24"), within(), vips), [
    ["192.0.2.1"],
    ["203.0.113.50"],
  ]);
  assertEquals(addresses([4], ALL, within(), vips), [["0.0.0.0"]]);
  assertEquals(addresses([4, 6], ALL, ALL, vips), [["::"]]);
});

import { assertEquals } from "@std/assert";
import {
  claimText,
  hostPort,
  nodePortKey,
  objectKey,
  servicePortName,
  vipId,
  vipKey,
  vipKeyOf,
} from "../../../lib/model/cluster/names.ts";
import { PROTOCOLS } from "../../../lib/model/cluster/objects.ts";

Deno.test("an object is named by its namespace and name, or by its name alone", () => {
  assertEquals(objectKey({ namespace: "default", name: "web" }), "default/web");
  assertEquals(objectKey({ name: "node-1" }), "node-1");
});

Deno.test("a service port without a name is named as its Service", () => {
  assertEquals(servicePortName("default/web", { name: "http" }), "default/web:http");
  assertEquals(servicePortName("default/web", { name: "" }), "default/web");
});

Deno.test("keys of frontends are written as nft concatenates them", () => {
  assertEquals(vipKey("10.96.0.1", "tcp", 80), "10.96.0.1 . tcp . 80");
  assertEquals(vipKey("fd00::1", "sctp", 443), "fd00::1 . sctp . 443");
  assertEquals(nodePortKey("udp", 30053), "udp . 30053");
});

Deno.test("the id of a virtual IP stands for its key alone", () => {
  const addresses = ["0.0.0.1", "10.96.0.1", "10.96.1.0", "255.255.255.254", "fd00::1", "fd00::10"];
  const all = addresses.flatMap((address) =>
    PROTOCOLS.flatMap((protocol) =>
      [1, 80, 443, 65_535].map((port) => [address, protocol, port] as const)
    )
  );
  for (const each of all) {
    assertEquals(vipKeyOf(vipId(...each)), vipKey(...each));
    assertEquals(typeof vipId(...each), each[0].includes(":") ? "string" : "number");
  }
  assertEquals(new Set(all.map((each) => vipId(...each))).size, all.length);
  assertEquals(vipKeyOf("IPv4 node port tcp . 80"), "IPv4 node port tcp . 80");
});

Deno.test("a claim is printed for people as address, port and protocol", () => {
  const texts = ["192.0.2.30 . tcp . 80", "fd00::1 . udp . 53", "IPv4 node port sctp . 30080"]
    .concat("load-balancer IP 192.0.2.1");
  assertEquals(texts.map(claimText), [
    "192.0.2.30:80/tcp",
    "[fd00::1]:53/udp",
    "IPv4 node port 30080/sctp",
    "load-balancer IP 192.0.2.1",
  ]);
});

Deno.test("an IPv6 address with a port is put in brackets", () => {
  assertEquals(hostPort("10.0.0.1", 80), "10.0.0.1:80");
  assertEquals(hostPort("fd00::1", 80), "[fd00::1]:80");
});

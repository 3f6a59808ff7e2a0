import { assertEquals } from "@std/assert";
import {
  hostPort,
  nodePortKey,
  objectKey,
  servicePortName,
  vipKey,
} from "../../../lib/model/cluster/names.ts";

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

Deno.test("an IPv6 address with a port is put in brackets", () => {
  assertEquals(hostPort("10.0.0.1", 80), "10.0.0.1:80");
  assertEquals(hostPort("fd00::1", 80), "[fd00::1]:80");
});

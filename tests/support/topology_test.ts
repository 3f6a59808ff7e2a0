import { assertEquals } from "@std/assert";
import { addressesOf, layOut, NODE, WORLD } from "./topology.ts";

const TOPOLOGY = {
  node: ["192.168.0.2", "2001:db8::2"],
  hosts: { web: ["10.244.0.11", "fd00:10:244::11"] },
};

Deno.test("on a kernel without IPv6 a test network has IPv4 alone", () => {
  for (const name of [NODE, WORLD, "web"]) {
    assertEquals(addressesOf(TOPOLOGY, name, false).filter((each) => each.includes(":")), []);
    assertEquals(addressesOf(TOPOLOGY, name, false).length, 1, name);
  }
  const commands = layOut(TOPOLOGY, (name) => name, false).flatMap(([, lines]) => lines);
  assertEquals(commands.filter((line) => line.startsWith("-6") || /[0-9a-f]:/.test(line)), []);
  const both = layOut(TOPOLOGY, (name) => name, true).flatMap(([, lines]) => lines);
  assertEquals(both.filter((line) => /[0-9a-f]:/.test(line)).length > 0, true);
});

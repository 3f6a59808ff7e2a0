import { assertEquals } from "@std/assert";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { ConnectionsByService } from "../../../lib/observe/connections/services.ts";
import { desiredPort } from "./desired_port.ts";
import type { DesiredServicePort } from "../../../lib/model/kernel/desired.ts";

const WEB = desiredPort();
const WEB6: DesiredServicePort = {
  ...WEB,
  family: 6,
  clusterIPs: ["fd00:10:96::a"],
  externalIPs: [],
  loadBalancerIPs: [],
};

function counter(services: Map<string, readonly DesiredServicePort[]>) {
  const connections = new ConnectionsByService(() => services);
  const add = (frontend: string, more: number, service = "shop/web") =>
    connections.add({ frontend, service }, more);
  const list = () =>
    [...connections.list()].map(({ service, port, frontend, connections, perSecond }) =>
      [service, port, frontend, connections, perSecond] as const
    );
  return { connections, add, list };
}

Deno.test("connections are summed by kind of frontend, of both families", () => {
  const { connections, add, list } = counter(new Map([["shop/web", [WEB, WEB6]]]));
  add("IPv4 10.96.0.10 . tcp . 80", 3);
  add("IPv6 fd00:10:96::a . tcp . 80", 4);
  add("IPv4 tcp . 30080", 1);
  add("IPv6 tcp . 30080", 2);
  add("IPv4 192.0.2.10 . tcp . 80", 5);
  add("IPv4 198.51.100.7 . tcp . 80", 6);
  atOnce(connections.finishReading(undefined));
  assertEquals(list(), [
    ["web", 80, "clusterIP", 7, 0],
    ["web", 80, "nodePort", 3, 0],
    ["web", 80, "loadBalancerIP", 5, 0],
    ["web", 80, "externalIP", 6, 0],
  ]);
});

Deno.test("the rate is that of the time between two readings", () => {
  const { connections, add, list } = counter(new Map([["shop/web", [WEB]]]));
  add("IPv4 tcp . 30080", 100);
  atOnce(connections.finishReading(undefined));
  add("IPv4 tcp . 30080", 20);
  atOnce(connections.finishReading(5));
  assertEquals(list(), [["web", 80, "nodePort", 120, 4]]);
  atOnce(connections.finishReading(5));
  assertEquals(list(), [["web", 80, "nodePort", 120, 0]]);
});

Deno.test("frontends that their Service does not have count nothing", () => {
  const { connections, add, list } = counter(new Map([["shop/web", [WEB]]]));
  add("IPv4 tcp . 30081", 1);
  add("IPv4 tcp . 30080", 1, "shop/other");
  atOnce(connections.finishReading(undefined));
  assertEquals(list(), []);
});

Deno.test("what is known of a Service goes with it, and a new one of its name begins at nothing", () => {
  const services = new Map([["shop/web", [WEB]]]);
  const { connections, add, list } = counter(services);
  add("IPv4 tcp . 30080", 9);
  atOnce(connections.finishReading(undefined));
  services.delete("shop/web");
  atOnce(connections.finishReading(5));
  assertEquals(list(), []);
  services.set("shop/web", [WEB]);
  add("IPv4 tcp . 30080", 2);
  atOnce(connections.finishReading(5));
  assertEquals(list(), [["web", 80, "nodePort", 2, 0.4]]);
});

Deno.test("an update of a Service loses none of its connections, but those of a port that goes", () => {
  const services = new Map([["shop/web", [WEB, {
    ...WEB,
    name: "shop/web:tls",
    port: 443,
    nodePort: 0,
  }]]]);
  const { connections, add, list } = counter(services);
  add("IPv4 tcp . 30080", 9);
  add("IPv4 10.96.0.10 . tcp . 443", 3);
  atOnce(connections.finishReading(undefined));
  services.set("shop/web", [{ ...WEB, nodePort: 30099 }]);
  add("IPv4 tcp . 30099", 1);
  atOnce(connections.finishReading(5));
  assertEquals(list(), [["web", 80, "nodePort", 10, 0.2]]);
});

Deno.test("without any reading, what is kept of Services that come and go is bounded", () => {
  const services = new Map<string, readonly DesiredServicePort[]>();
  const { add, list } = counter(services);
  for (let i = 0; i < 10_000; i++) {
    services.set(`shop/web${i}`, [WEB]);
    add("IPv4 tcp . 30080", 1, `shop/web${i}`);
    services.delete(`shop/web${i}`);
  }
  assertEquals(list().length < 2_002, true);
});

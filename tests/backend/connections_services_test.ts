import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { ConnectionsByService } from "../../lib/backend/connections.ts";
import { desiredPort } from "./desired_port.ts";
import type { FrontendCount } from "../../lib/model/connections.ts";
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";

const WEB = desiredPort();
const WEB6: DesiredServicePort = {
  ...WEB,
  family: 6,
  clusterIPs: ["fd00:10:96::a"],
  externalIPs: [],
  loadBalancerIPs: [],
};

/** Sums whose first reading is over, and the counters that they read. */
function counter(services: Map<string, readonly DesiredServicePort[]>) {
  const connections = new ConnectionsByService(() => services);
  const counters = new Map<string, FrontendCount>();
  const set = (frontend: string, count: number, service = "shop/web") =>
    counters.set(frontend, { frontend, service, connections: count });
  const forget = (frontend: string) => counters.delete(frontend);
  const read = (seconds?: number) => atOnce(connections.taking(counters.values(), seconds));
  const list = () =>
    [...connections.list()].map(({ service, port, frontend, connections, perSecond }) =>
      [service, port, frontend, connections, perSecond] as const
    );
  read();
  return { set, forget, read, list };
}

Deno.test("connections are summed by kind of frontend, of both families", () => {
  const { set, read, list } = counter(new Map([["shop/web", [WEB, WEB6]]]));
  set("IPv4 10.96.0.10 . tcp . 80", 3);
  set("IPv6 fd00:10:96::a . tcp . 80", 4);
  set("IPv4 tcp . 30080", 1);
  set("IPv6 tcp . 30080", 2);
  set("IPv4 192.0.2.10 . tcp . 80", 5);
  set("IPv4 198.51.100.7 . tcp . 80", 6);
  read(1);
  assertEquals(list(), [
    ["web", 80, "clusterIP", 7, 7],
    ["web", 80, "nodePort", 3, 3],
    ["web", 80, "loadBalancerIP", 5, 5],
    ["web", 80, "externalIP", 6, 6],
  ]);
});

Deno.test("the rate is that of the time between two readings", () => {
  const { set, read, list } = counter(new Map([["shop/web", [WEB]]]));
  set("IPv4 tcp . 30080", 100);
  read(1);
  set("IPv4 tcp . 30080", 120);
  read(5);
  assertEquals(list(), [["web", 80, "nodePort", 120, 4]]);
  read(5);
  assertEquals(list(), [["web", 80, "nodePort", 120, 0]]);
});

Deno.test("frontends that their Service does not have count nothing", () => {
  const { set, read, list } = counter(new Map([["shop/web", [WEB]]]));
  set("IPv4 tcp . 30081", 1);
  set("IPv4 tcp . 30080", 1, "shop/other");
  read(1);
  assertEquals(list(), []);
});

Deno.test("a new Service of the name of a deleted one begins at zero", () => {
  const services = new Map([["shop/web", [WEB]]]);
  const { set, forget, read, list } = counter(services);
  set("IPv4 tcp . 30080", 9);
  read(1);
  services.delete("shop/web");
  forget("IPv4 tcp . 30080");
  read(5);
  assertEquals(list(), []);
  services.set("shop/web", [WEB]);
  set("IPv4 tcp . 30080", 2);
  read(5);
  assertEquals(list(), [["web", 80, "nodePort", 2, 0.4]]);
});

Deno.test("an update of a Service loses only the connections of a removed port", () => {
  const services = new Map([["shop/web", [WEB, {
    ...WEB,
    name: "shop/web:tls",
    port: 443,
    nodePort: 0,
  }]]]);
  const { set, forget, read, list } = counter(services);
  set("IPv4 tcp . 30080", 9);
  set("IPv4 10.96.0.10 . tcp . 443", 3);
  read(1);
  services.set("shop/web", [{ ...WEB, nodePort: 30099 }]);
  forget("IPv4 tcp . 30080");
  set("IPv4 tcp . 30099", 1);
  read(5);
  assertEquals(list(), [["web", 80, "nodePort", 10, 0.2]]);
});

Deno.test("a counter that was reset counts whole, one that grew counts by its difference", () => {
  const { set, read, list } = counter(new Map([["shop/web", [WEB]]]));
  const after = (count: number) => {
    set("IPv4 tcp . 30080", count);
    read(1);
    return list()[0]?.[3];
  };
  assertEquals([40, 50, 3, 0, 2].map(after), [40, 50, 53, 53, 55]);
});

Deno.test("a frontend that another Service takes over counts whole", () => {
  const services = new Map([["shop/web", [WEB]]]);
  const { set, read, list } = counter(services);
  set("IPv4 tcp . 30080", 4);
  read(1);
  services.set("shop/new", [{ ...WEB, name: "shop/new:http" }]);
  services.delete("shop/web");
  set("IPv4 tcp . 30080", 9, "shop/new");
  read(1);
  assertEquals(list(), [["new", 80, "nodePort", 9, 9]]);
});

Deno.test("connections of an older process do not count", () => {
  const connections = new ConnectionsByService(() => new Map([["shop/web", [WEB]]]));
  const read = (count: number, seconds?: number) => {
    const frontend = { frontend: "IPv4 tcp . 30080", service: "shop/web", connections: count };
    atOnce(connections.taking([frontend], seconds));
    return [...connections.list()].map((each) => each.connections);
  };
  assertEquals([read(40), read(50, 1)], [[], [10]]);
});

Deno.test("property: sums never fall, and never pass the connections that were made", () => {
  const step = fc.oneof(fc.nat({ max: 50 }), fc.constantFrom("rewrite", "read"));
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
    const { set, read, list } = counter(new Map([["shop/web", [WEB]]]));
    let [made, element, before] = [0, 0, 0];
    for (const each of steps) {
      if (each === "rewrite") element = 0;
      if (typeof each === "number") {
        made += each;
        element += each;
      }
      set("IPv4 tcp . 30080", element);
      if (each === "read") read(1);
      const sum = list()[0]?.[3] ?? 0;
      if (sum < before || sum > made) return false;
      before = sum;
    }
    return true;
  }));
});

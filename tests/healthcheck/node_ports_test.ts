import { assertEquals } from "@std/assert";
import { HealthCheckNodePorts } from "../../lib/healthcheck/node_ports.ts";
import { type Family, familyOf } from "../../lib/model/values/address.ts";
import type { DesiredNode } from "../../lib/model/kernel/desired.ts";
import type { HttpHandler, HttpListen } from "../../lib/model/ports/http.ts";
import type { HealthCheck } from "../../lib/policy/service.ts";
import { httpListen } from "../../lib/system/http_servers.ts";
import { ManualClock, MemoryLogger, realClock, START } from "../support/clock_and_log.ts";
import { Pipeline } from "../support/pipeline.ts";

const LISTEN = httpListen({ clock: realClock, logger: new MemoryLogger() });

/** Listeners without sockets: one handler per `address port`, one owner each. */
function fakeNetwork() {
  const open = new Map<string, HttpHandler>();
  const taken = new Set<string>();
  const listen: HttpListen = ({ hostname, port }, handler) => {
    const key = `${hostname} ${port}`;
    if (taken.has(key) || open.has(key)) throw new Error(`${key} is in use`);
    open.set(key, handler);
    return {
      port,
      close: () => {
        open.delete(key);
        return Promise.resolve();
      },
    };
  };
  return { open, taken, listen };
}

/** Node ports in these ranges of each family, and on no address of a family without one. */
function nodeWith(cidrs: readonly string[]): DesiredNode {
  const { node } = new Pipeline().desired;
  const inFamily = (family: Family) => ({
    ...node.families[family],
    nodePortAddresses: {
      type: "cidrs" as const,
      cidrs: cidrs.filter((each) => familyOf(each) === family),
    },
  });
  return { ...node, families: { 4: inFamily(4), 6: inFamily(6) } };
}

function start(listen: HttpListen, addresses: readonly string[] = ["192.0.2.1"]) {
  const state = { isHealthy: true, addresses, node: nodeWith(["0.0.0.0/0", "::/0"]) };
  const clock = new ManualClock(START);
  const logger = new MemoryLogger();
  const changes: number[] = [];
  const all = new HealthCheckNodePorts({ listen, clock });
  const owner = {
    where: () => ({ node: state.node, ownAddresses: state.addresses }),
    isHealthy: () => state.isHealthy,
    logger,
    changed: () => changes.push(all.failures.length),
  };
  const ports = {
    get failures() {
      return all.failures;
    },
    sync: (desired: ReadonlyMap<string, HealthCheck>) => all.sync(desired, owner),
    close: () => all[Symbol.asyncDispose](),
  };
  return { state, clock, logger, changes, ports, all, owner };
}

function check(port: number, four = 1, six = four): HealthCheck {
  return { port, localEndpoints: new Map([[4, four], [6, six]]), loadBalancerIPs: [] };
}

Deno.test("body, headers and codes are kube-proxy's", async () => {
  const network = fakeNetwork();
  const { ports, state } = start(network.listen);
  const answer = () => network.open.get("192.0.2.1 31000")?.({ method: "GET", path: "/any" });
  await ports.sync(new Map([["shop/web", check(31000, 3)]]));
  assertEquals(await answer(), {
    status: 200,
    headers: {
      "Content-Type": "application/json",
      "X-Content-Type-Options": "nosniff",
      "X-Load-Balancing-Endpoint-Weight": "3",
    },
    body: '{\n\t"service": {\n\t\t"namespace": "shop",\n\t\t"name": "web"\n\t},\n' +
      '\t"localEndpoints": 3,\n\t"serviceProxyHealthy": true\n}',
  });
  state.isHealthy = false;
  assertEquals((await answer())?.status, 503);
  state.isHealthy = true;
  await ports.sync(new Map([["shop/web", check(31000, 0)]]));
  const none = await answer();
  assertEquals([none?.status, none?.headers["X-Load-Balancing-Endpoint-Weight"]], [503, "0"]);
  await ports.close();
});

Deno.test("listeners follow services, ports and addresses", async () => {
  const network = fakeNetwork();
  const { ports, state } = start(network.listen, ["192.0.2.1", "2001:db8::1"]);
  const open = () => [...network.open.keys()].sort();
  await ports.sync(new Map([["a/a", check(31000)], ["b/b", check(31001)]]));
  assertEquals(open(), [
    "192.0.2.1 31000",
    "192.0.2.1 31001",
    "2001:db8::1 31000",
    "2001:db8::1 31001",
  ]);
  const kept = network.open.get("192.0.2.1 31001");
  await ports.sync(new Map([["a/a", check(31002)], ["b/b", check(31001, 5)]]));
  assertEquals(open().filter((key) => key.startsWith("192")), [
    "192.0.2.1 31001",
    "192.0.2.1 31002",
  ]);
  assertEquals(network.open.get("192.0.2.1 31001"), kept);
  state.addresses = ["192.0.2.2"];
  await ports.sync(new Map([["b/b", check(31001)]]));
  assertEquals(open(), ["192.0.2.2 31001"]);
  await ports.close();
  assertEquals(open(), []);
});

Deno.test("a port that passes from one service to another is closed before it is opened", async () => {
  const network = fakeNetwork();
  const { ports, logger } = start(network.listen);
  await ports.sync(new Map([["z/old", check(31000)]]));
  await ports.sync(new Map([["a/new", check(31000)]]));
  assertEquals(network.open.size, 1);
  assertEquals(logger.messages, []);
  await ports.close();
});

Deno.test("a port that is taken is opened when it is free", async () => {
  const network = fakeNetwork();
  const { ports, clock, changes } = start(network.listen, ["192.0.2.1", "192.0.2.2"]);
  network.taken.add("192.0.2.2 31000");
  await ports.sync(new Map([["shop/web", check(31000)]]));
  assertEquals([...network.open], []); // On all addresses, or on none.
  for (let attempt = 0; attempt < 3; attempt++) await clock.advance(5_000);
  assertEquals(ports.failures.map(({ id, what, services }) => [id, what, services]), [[
    "health-check-port-taken",
    "this node cannot listen on health-check node port 31000 of shop/web: " +
    "192.0.2.2 31000 is in use",
    ["shop/web"],
  ]]);
  network.taken.clear();
  await clock.advance(5_000);
  assertEquals(network.open.size, 2);
  assertEquals(changes, [1, 0]);
  await ports.close();
});

Deno.test("one family that cannot listen is nothing to the other", async () => {
  const network = fakeNetwork();
  const { ports } = start(network.listen, ["192.0.2.1", "2001:db8::1"]);
  network.taken.add("2001:db8::1 31000");
  await ports.sync(new Map([["shop/web", check(31000)]]));
  assertEquals([...network.open.keys()], ["192.0.2.1 31000"]);
  assertEquals(ports.failures.length, 1);
  await ports.close();
});

Deno.test("a load-balancer IP that is not this node's is not a failure", async () => {
  const network = fakeNetwork();
  const tried: string[] = [];
  let isOurs = false;
  const listen: HttpListen = (address, handler) => {
    if (address.hostname === "203.0.113.50") {
      tried.push(address.hostname);
      if (!isOurs) throw new Deno.errors.AddrNotAvailable("not here");
    }
    return network.listen(address, handler);
  };
  const { ports, clock, changes } = start(listen);
  const desired = new Map([["shop/web", { ...check(31000), loadBalancerIPs: ["203.0.113.50"] }]]);
  for (let round = 0; round < 3; round++) await ports.sync(desired);
  assertEquals([tried.length, ports.failures, changes], [1, [], []]);
  await clock.advance(29_000);
  assertEquals(tried.length, 1);
  isOurs = true;
  await clock.advance(1_000);
  assertEquals([...network.open.keys()], ["192.0.2.1 31000", "203.0.113.50 31000"]);
  await ports.close();
  assertEquals(network.open.size, 0);
});

Deno.test("a failure at a load-balancer IP ends when the IP leaves this node", async () => {
  const network = fakeNetwork();
  let isOurs = true;
  const { ports, clock, changes } = start((address, handler) => {
    if (address.hostname === "203.0.113.50" && !isOurs) {
      throw new Deno.errors.AddrNotAvailable("not here");
    }
    return network.listen(address, handler);
  });
  network.taken.add("203.0.113.50 31000");
  await ports.sync(new Map([["a/b", { ...check(31000), loadBalancerIPs: ["203.0.113.50"] }]]));
  isOurs = false;
  await clock.advance(5_000);
  assertEquals([ports.failures, changes], [[], [1, 0]]);
  await ports.close();
});

Deno.test("a port that is taken is tried again after 5 seconds beside IPs of other nodes", async () => {
  const network = fakeNetwork();
  const tried: string[] = [];
  const { ports, clock } = start((address, handler) => {
    if (address.hostname === "192.0.2.1") return network.listen(address, handler);
    tried.push(address.hostname);
    throw new Deno.errors.AddrNotAvailable("not here");
  });
  const desired = { ...check(31000), loadBalancerIPs: ["203.0.113.50"] };
  await ports.sync(new Map([["shop/web", desired]]));
  network.taken.add("192.0.2.1 31001");
  await ports.sync(new Map([["shop/web", desired], ["shop/api", check(31001)]]));
  network.taken.clear();
  await clock.advance(5_000);
  assertEquals([ports.failures, tried.length], [[], 1]);
  await ports.close();
});

Deno.test("the ports stay open while one daemon follows another", async () => {
  const network = fakeNetwork();
  const { ports, all, owner, clock } = start(network.listen);
  const desired = new Map([["shop/web", check(31000)]]);
  await ports.sync(desired);
  const handler = network.open.get("192.0.2.1 31000");
  const status = async () => (await handler?.({ method: "GET", path: "/" }))?.status;
  all.release();
  await clock.advance(9_000);
  assertEquals(await status(), 200);
  await all.sync(desired, { ...owner, isHealthy: () => true });
  await clock.advance(2_000);
  assertEquals([network.open.get("192.0.2.1 31000"), await status()], [handler, 200]);
  await ports.close();
});

Deno.test("the ports answer 503 ten seconds after their daemon, if none follows", async () => {
  const network = fakeNetwork();
  const { ports, all, clock } = start(network.listen);
  await ports.sync(new Map([["shop/web", check(31000)]]));
  all.release();
  await clock.advance(10_000);
  const answer = await network.open.get("192.0.2.1 31000")?.({ method: "GET", path: "/" });
  assertEquals(answer?.status, 503);
  await ports.close();
});

Deno.test("the failure of a Service ends with it, though nothing else is wanted", async () => {
  const network = fakeNetwork();
  const { ports, changes } = start(network.listen);
  network.taken.add("192.0.2.1 31000");
  await ports.sync(new Map([["shop/web", check(31000)]]));
  await ports.sync(new Map());
  assertEquals([ports.failures, changes], [[], [1, 0]]);
  await ports.close();
});

Deno.test("each family tells of its own endpoints", async () => {
  const network = fakeNetwork();
  const { ports } = start(network.listen, ["192.0.2.1", "2001:db8::1"]);
  await ports.sync(new Map([["shop/web", check(31000, 1, 0)]]));
  const answers = await Promise.all(
    ["192.0.2.1", "2001:db8::1"].map((address) =>
      network.open.get(`${address} 31000`)?.({ method: "GET", path: "/" })
    ),
  );
  assertEquals(answers.map((answer) => answer?.status), [200, 503]);
  assertEquals(answers.map((answer) => answer?.headers["X-Load-Balancing-Endpoint-Weight"]), [
    "1",
    "0",
  ]);
  await ports.close();
});

/** A port that is free on all addresses now. */
async function freePort(): Promise<number> {
  const probe = LISTEN({ hostname: "::", port: 0 }, () => {
    throw new Error("not asked");
  });
  await probe.close();
  return probe.port;
}

async function weight(host: string, port: number): Promise<string | null> {
  const response = await fetch(`http://${host}:${port}/healthz`);
  await response.body?.cancel();
  return response.headers.get("x-load-balancing-endpoint-weight");
}

Deno.test("each client on all addresses gets the state of its family", async () => {
  const port = await freePort();
  const { ports, state } = start(LISTEN);
  const node = nodeWith([]);
  const open = { ...node.families[4], nodePortAddresses: { type: "all" as const } };
  state.node = { ...node, families: { 4: open, 6: open } };
  await ports.sync(new Map([["shop/web", check(port, 2, 3)]]));
  assertEquals([await weight("127.0.0.1", port), await weight("[::1]", port)], ["2", "3"]);
  await ports.close();
});

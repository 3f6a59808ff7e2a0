import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { LocalhostListeners, type LocalhostNodePort } from "../../lib/localhost/listeners.ts";
import type { Family } from "../../lib/model/values/address.ts";
import type {
  Clock,
  Tcp,
  TcpAddress,
  TcpConnection,
  TcpListener,
} from "../../lib/model/ports/ports.ts";
import { LISTEN_ADDRESS } from "../../lib/policy/frontend.ts";
import { tcp } from "../../lib/system/tcp.ts";
import {
  LongTurns,
  ManualClock,
  MemoryLogger,
  realClock,
  settle,
} from "../support/clock_and_log.ts";
import { eventually } from "../support/eventually.ts";

/** A server that says its port, then gives back what comes, until the client has ended. */
interface Server extends Disposable {
  readonly port: number;
}

function serve(family: Family = 4): Server {
  const listener = Deno.listen({ hostname: LISTEN_ADDRESS[family], port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  void (async () => {
    for await (const connection of listener) {
      void connection.write(new TextEncoder().encode(`${port}\n`))
        .then(() => connection.readable.pipeTo(connection.writable)).catch(() => {});
    }
  })();
  return { port, [Symbol.dispose]: () => listener.close() };
}

function freePort(family: Family = 4): number {
  const listener = Deno.listen({ hostname: LISTEN_ADDRESS[family], port: 0 });
  listener.close();
  return (listener.addr as Deno.NetAddr).port;
}

function create(clock: Pick<Clock, "monotonic" | "sleep"> = realClock): LocalhostListeners {
  return new LocalhostListeners({ tcp: tcp(), clock });
}

interface Wanted {
  readonly service?: string;
  readonly family?: Family;
  readonly affinitySeconds?: number;
  readonly to: readonly number[];
}

function sync(
  listeners: LocalhostListeners,
  ports: Readonly<Record<number, Wanted>>,
  logger = new MemoryLogger(),
): Promise<void> {
  const wanted = Object.entries(ports).map(([text, each]) => {
    const { service = "shop/web", family = 4, affinitySeconds = 0, to } = each;
    const address = LISTEN_ADDRESS[family];
    const endpoints = to.map((port) => ({ address, port, local: true, hairpin: false }));
    const servicePort = `${service}:${text}`;
    const port: LocalhostNodePort = {
      servicePort,
      family,
      port: Number(text),
      endpoints,
      affinitySeconds,
    };
    return [`${family} ${text}`, port] as const;
  });
  return listeners.sync(new Map(wanted), logger);
}

/** The first line of a connection: the port of the server; `""`: it was closed without one. */
async function ask(port: number, family: Family = 4): Promise<string> {
  using connection = await Deno.connect({ hostname: LISTEN_ADDRESS[family], port });
  return await readLine(connection);
}

async function readLine(connection: Deno.TcpConn): Promise<string> {
  let text = "";
  const buffer = new Uint8Array(100);
  while (!text.endsWith("\n")) {
    const count = await connection.read(buffer);
    if (count === null) break;
    text += new TextDecoder().decode(buffer.subarray(0, count));
  }
  return text.trim();
}

async function refused(port: number, family: Family = 4): Promise<void> {
  await assertRejects(() => ask(port, family), Deno.errors.ConnectionRefused);
}

for (const family of [4, 6] as const) {
  Deno.test(`a listener comes with its node port and goes with it (IPv${family})`, async () => {
    using server = serve(family);
    await using listeners = create();
    const port = freePort(family);
    await sync(listeners, { [port]: { family, to: [server.port] } });
    assertEquals(await ask(port, family), `${server.port}`);
    assertEquals(listeners.listeners(family), 1);
    await sync(listeners, {});
    assertEquals(listeners.listeners(family), 0);
    await refused(port, family);
  });
}

Deno.test("a change that comes as the last one ends is made, too", async () => {
  await using listeners = create();
  const first = sync(listeners, {});
  await Promise.resolve();
  const port = freePort();
  await sync(listeners, { [port]: { to: [] } });
  await first;
  assertEquals(listeners.listeners(4), 1);
});

Deno.test("new endpoints are used by the listener that is there", async () => {
  using before = serve();
  using after = serve();
  await using listeners = create();
  const port = freePort();
  await sync(listeners, { [port]: { to: [before.port] } });
  await sync(listeners, { [port]: { to: [after.port] } });
  assertEquals(await ask(port), `${after.port}`);
  assertEquals(listeners.listeners(4), 1);
});

Deno.test("an endpoint that refuses is passed over", async () => {
  using server = serve();
  await using listeners = create();
  const port = freePort();
  await sync(listeners, { [port]: { to: [freePort(), server.port] } });
  for (let i = 0; i < 20; i++) assertEquals(await ask(port), `${server.port}`);
});

Deno.test("a client is closed and counted if no endpoint answers", async () => {
  await using listeners = create();
  const port = freePort();
  await sync(listeners, { [port]: { to: [freePort()] } });
  assertEquals(await ask(port), "");
  assertEquals(listeners.counts[4].failures["no-answer"], 1);
});

Deno.test("the end of one direction does not end the other", async () => {
  using server = serve();
  await using listeners = create();
  const port = freePort();
  await sync(listeners, { [port]: { to: [server.port] } });
  using connection = await Deno.connect({ port });
  await readLine(connection);
  const size = 3_000_000;
  const sending = (async () => {
    const piece = new Uint8Array(100_000);
    for (let sent = 0; sent < size;) sent += await connection.write(piece);
    await connection.closeWrite();
  })();
  let received = 0;
  const buffer = new Uint8Array(65_536);
  for (let count; (count = await connection.read(buffer)) !== null;) received += count;
  await sending;
  assertEquals(received, size);
  await eventually("the connection is over", () => listeners.connections === 0);
});

Deno.test("a port that is taken is tried again", async () => {
  using server = serve();
  const clock = new ManualClock();
  await using listeners = create(clock);
  using blocker = Deno.listen({ hostname: LISTEN_ADDRESS[4], port: 0 });
  const taken = (blocker.addr as Deno.NetAddr).port;
  const port = freePort();
  await sync(listeners, { [taken]: { to: [server.port] }, [port]: { to: [server.port] } });
  assertEquals(listeners.counts[4].listenFailures, 1);
  assertEquals(listeners.listeners(4), 1);
  const [failure] = listeners.failures;
  const where = `127.0.0.1:${taken}`;
  assertEquals(
    [failure?.id, failure?.where, failure?.services],
    ["localhost-node-port-taken", where, ["shop/web"]],
  );
  assertMatch(failure?.what ?? "", RegExp(`^cannot listen on ${where} for shop/web:${taken}: .`));
  assertEquals(await ask(port), `${server.port}`);
  blocker.close();
  clock.pass(5_000);
  await eventually("the listener", () => listeners.listeners(4) === 2);
  assertEquals(listeners.failures, []);
});

Deno.test("the end closes all listeners and connections", async () => {
  using server = serve();
  const listeners = create();
  const [one, two] = [freePort(), freePort()];
  await sync(listeners, { [one]: { to: [server.port] }, [two]: { to: [server.port] } });
  using connection = await Deno.connect({ port: one });
  await readLine(connection);
  await listeners[Symbol.asyncDispose]();
  assertEquals(await readLine(connection).catch(() => ""), "");
  for (const port of [one, two]) await refused(port);
  assertEquals(listeners.listeners(4), 0);
});

/** TCP whose connections stay open and do nothing; `accept` is what the last listener does with one. */
class SilentTcp implements Tcp {
  accept: (connection: TcpConnection) => void = () => {};
  readonly accepts: ((connection: TcpConnection) => void)[] = [];
  closed = 0;

  listen(_at: TcpAddress, accept: (connection: TcpConnection) => void): TcpListener {
    this.accept = accept;
    this.accepts.push(accept);
    return { close: () => Promise.resolve() };
  }

  connect(): Promise<TcpConnection> {
    return Promise.resolve(this.connection());
  }

  connection(): TcpConnection {
    return { join: () => new Promise(() => {}), close: () => void this.closed++ };
  }
}

Deno.test("thousands of listeners are opened in turns", async () => {
  const clock = new LongTurns();
  await using listeners = new LocalhostListeners({ tcp: new SilentTcp(), clock });
  const ports = Array.from({ length: 2_000 }, (_, i) => [i + 1, { to: [80] }] as const);
  await sync(listeners, Object.fromEntries(ports));
  assertEquals([listeners.listeners(4), clock.turns >= 2_000], [2_000, true]);
});

Deno.test("a connection whose client has finished ends if its endpoint is silent", async () => {
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = silent.accept();
  await using listeners = new LocalhostListeners({ tcp: tcp(50), clock: realClock });
  const port = freePort();
  await sync(listeners, { [port]: { to: [silent.addr.port] } });
  using client = await Deno.connect({ hostname: "127.0.0.1", port });
  using _endpoint = await accepted;
  await client.closeWrite();
  await eventually("the connection is over", () => listeners.connections === 0);
});

Deno.test("the end of the last connection is reported, for its memory to be given back", async () => {
  let idle = 0;
  const options = { tcp: tcp(50), clock: realClock, idle: () => void idle++ };
  await using listeners = new LocalhostListeners(options);
  using server = serve();
  const port = freePort();
  await sync(listeners, { [port]: { to: [server.port] } });
  const clients = await Promise.all(
    [1, 2].map(() => Deno.connect({ hostname: "127.0.0.1", port })),
  );
  await eventually("two connections", () => listeners.connections === 2);
  clients[0]?.close();
  await eventually("one connection", () => listeners.connections === 1);
  assertEquals(idle, 0);
  clients[1]?.close();
  await eventually("no connection", () => listeners.connections === 0);
  assertEquals(idle, 1);
});

Deno.test("the connections of a deleted Service end, those of other Services stay", async () => {
  const silent = new SilentTcp();
  await using listeners = new LocalhostListeners({ tcp: silent, clock: realClock });
  const [deleted, other] = ["shop/deleted", "shop/other"] as const;
  await sync(listeners, { 1: { service: deleted, to: [80] }, 2: { service: other, to: [80] } });
  for (const accept of silent.accepts) accept(silent.connection());
  await settle();
  await sync(listeners, {});
  listeners.endDeleted(new Set([deleted, other]));
  assertEquals([listeners.connections, silent.closed], [2, 0]);
  listeners.endDeleted(new Set([other]));
  assertEquals(silent.closed, 2, "the client and the endpoint");
});

Deno.test("one Service has half of the connections at most", async () => {
  const silent = new SilentTcp();
  await using listeners = new LocalhostListeners({ tcp: silent, clock: realClock });
  await sync(listeners, { 1: { to: [80] } });
  for (let i = 0; i < 2_048 + 3; i++) silent.accept(silent.connection());
  assertEquals([listeners.connections, silent.closed], [2_048, 3]);
  assertEquals(listeners.summary?.refused, 3);
});

Deno.test("connections over 4,096 are closed", async () => {
  const tcp = new SilentTcp();
  const logger = new MemoryLogger();
  await using listeners = new LocalhostListeners({ tcp, clock: realClock });
  const ports = ["shop/a", "shop/b", "shop/c"].map((service, i) =>
    [i, { service, to: [80] }] as const
  );
  await sync(listeners, Object.fromEntries(ports), logger);
  for (const [i, most] of [2_048, 2_048, 3].entries()) {
    for (let n = 0; n < most; n++) tcp.accepts[i]?.(tcp.connection());
  }
  assertEquals([listeners.connections, tcp.closed], [4_096, 3]);
  assertEquals(listeners.counts[4].failures["too-many"], 3);
  assertEquals(logger.at("warn").length, 1);
});

Deno.test("a node port that goes and comes back has its listener at once", async () => {
  using server = serve();
  await using listeners = create();
  const port = freePort();
  for (let i = 0; i < 20; i++) {
    await sync(listeners, { [port]: { to: [server.port] } });
    await sync(listeners, {});
  }
  await sync(listeners, { [port]: { to: [server.port] } });
  assertEquals(await ask(port), `${server.port}`);
  assertEquals(listeners.counts[4].listenFailures, 0);
});

import { assert, assertEquals, assertRejects } from "@std/assert";
import { MemoryLogger, realClock } from "../support/clock_and_log.ts";
import { eventually } from "../support/eventually.ts";
import { Turns } from "../../lib/model/ports/in_turns.ts";
import { SystemClock } from "../../lib/system/clock.ts";
import { httpListen } from "../../lib/system/http/servers.ts";
import { tryToClose } from "../../lib/system/close.ts";
import { connectWithSelf, Rounds } from "../../lib/system/rounds.ts";

/** Rounds by a connection that is closed. */
async function openRounds() {
  const connection = await connectWithSelf();
  const rounds = new Rounds(() => Promise.resolve(connection));
  const close = () => {
    tryToClose(connection.reader);
    tryToClose(connection.writer);
  };
  return { rounds, connection, [Symbol.dispose]: close };
}

Deno.test("who waits has a round for itself, in the order of asking", async () => {
  using opened = await openRounds();
  const { rounds } = opened;
  const order: string[] = [];
  const wait = async (name: string) => {
    await rounds.next();
    order.push(name);
    await rounds.next();
    order.push(`${name} again`);
  };
  await Promise.all([wait("a"), wait("b")]);
  assertEquals(order, ["a", "b", "a again", "b again"]);
});

Deno.test("while a list streams in and long work goes on, a request is read within two turns", async () => {
  using opened = await openRounds();
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () =>
      new Response(
        new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) }),
      ),
  );
  const clock = new SystemClock(opened.rounds);
  const done = new AbortController();
  const list = (async () => {
    const { body } = await fetch(`http://127.0.0.1:${server.addr.port}/`);
    const turns = new Turns(clock);
    for await (const _ of body ?? []) {
      if (done.signal.aborted) break;
      await turns.giveWay();
    }
  })();
  const { reader: request, writer: client } = await connectWithSelf();
  const waited: number[] = [];
  for (let i = 0; i < 30; i++) {
    let isRead = false;
    const reading = request.read(new Uint8Array(1)).then(() => isRead = true);
    await client.write(new Uint8Array(1));
    let turns = 0;
    while (!isRead) {
      turns++;
      const start = performance.now();
      while (performance.now() - start < 5);
      await clock.sleep(0);
    }
    await reading;
    waited.push(turns);
  }
  done.abort();
  await list;
  request.close();
  client.close();
  assert(Math.max(...waited) <= 2, `turns: ${waited.join(" ")}`);
});

/** Connects, asks and hangs up when told to: another thread, as clients do not share our event loop. */
const CLIENT = `
  onmessage = async ({ data: { port, shared } }) => {
    const asked = new Int32Array(shared);
    const request = new TextEncoder().encode("GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n");
    const conn = await Deno.connect({ hostname: "127.0.0.1", port });
    await conn.write(request);
    Atomics.store(asked, 0, 1);
    Atomics.notify(asked, 0);
    await conn.read(new Uint8Array(4096));
    conn.close();
    postMessage("done");
  };
`;

const TURNS = 10;

Deno.test("what comes on a new connection during a turn is answered before the next one", async () => {
  using opened = await openRounds();
  let answered = 0;
  const listen = httpListen({ clock: realClock, logger: new MemoryLogger() });
  const listener = listen({ hostname: "127.0.0.1", port: 0 }, () => {
    answered++;
    return { status: 200, headers: {}, body: "" };
  });
  const url = URL.createObjectURL(new Blob([CLIENT]));
  const client = new Worker(url, { type: "module" });
  let inTheirRound = 0;
  for (let i = 0; i < TURNS; i++) {
    const done = new Promise((resolve) => client.onmessage = resolve);
    const shared = new SharedArrayBuffer(4);
    client.postMessage({ port: listener.port, shared });
    // A turn, in which nothing else is done.
    Atomics.wait(new Int32Array(shared), 0, 0);
    await opened.rounds.next();
    if (answered > i) inTheirRound++;
    await done;
  }
  client.terminate();
  URL.revokeObjectURL(url);
  await listener.close();
  assertEquals(answered, TURNS);
  // With one look in each round, only the first is. On a busy machine a connection may come later than its client thinks.
  assert(inTheirRound > TURNS / 2, `${inTheirRound} of ${TURNS}`);
});

Deno.test("where there can be no such connection, timers do", async () => {
  let tries = 0;
  const rounds = new Rounds(() => {
    tries++;
    return Promise.reject(new Deno.errors.PermissionDenied("no sockets"));
  });
  for (let i = 0; i < 3; i++) await rounds.next();
  assertEquals(tries, 1);
});

Deno.test("where the connection breaks, timers do", async () => {
  using opened = await openRounds();
  const { rounds, connection } = opened;
  for (let i = 0; i < 2; i++) await rounds.next();
  connection.writer.close();
  for (let i = 0; i < 3; i++) await rounds.next();
});

Deno.test("where another process connects first, no socket of ours stays open", async () => {
  const { listen } = Deno;
  for (const word of ["a wrong name, as long as the right one", undefined]) {
    const before = openSockets();
    const rival = Promise.withResolvers<Deno.Conn>();
    Deno.listen = ((address: Deno.UnixListenOptions & { transport: "unix" }) => {
      const listener = listen(address);
      Deno.connect(address).then(rival.resolve, rival.reject);
      return listener;
    }) as typeof Deno.listen;
    const connecting = connectWithSelf();
    Deno.listen = listen;
    connecting.catch(() => {});
    const other = await rival.promise;
    if (word !== undefined) await other.write(new TextEncoder().encode(word));
    await assertRejects(() => connecting);
    other.close();
    await eventually("all sockets are closed", () => openSockets() <= before);
  }
});

/** Sockets that this process has open. */
function openSockets(): number {
  return [...Deno.readDirSync("/proc/self/fd")].filter(({ name }) => {
    try {
      return Deno.readLinkSync(`/proc/self/fd/${name}`).startsWith("socket:");
    } catch {
      return false;
    }
  }).length;
}

import { assert, assertEquals } from "@std/assert";
import { Turns } from "../../lib/model/ports/in_turns.ts";
import { SystemClock } from "../../lib/system/clock.ts";
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

import { assert, assertEquals } from "@std/assert";
import { Turns } from "../../../lib/model/ports/in_turns.ts";

/** A clock by which each step of the work takes so many milliseconds. */
function working(step: number) {
  let now = 0;
  const sleeps: number[] = [];
  const clock = {
    monotonic: () => now,
    sleep: () => {
      sleeps.push(now);
      now += 2;
      return Promise.resolve();
    },
  };
  function* work(steps: number): Generator<undefined, string> {
    for (let i = 0; i < steps; i++) {
      now += step;
      yield;
    }
    return "done";
  }
  return { clock, sleeps, work };
}

Deno.test("work yields by the time that it took", async () => {
  const { clock, sleeps, work } = working(1);
  assertEquals(await new Turns(clock).run(work(100)), "done");
  const turns = sleeps.map((at, i) => at - (sleeps[i - 1] ?? -2) - 2);
  assertEquals(new Set(turns), new Set([20]));
  assertEquals(turns.length, 5);
});

Deno.test("steps that take longer than a turn give way each time", async () => {
  const { clock, sleeps, work } = working(30);
  await new Turns(clock).run(work(5));
  assertEquals(sleeps.length, 5);
});

Deno.test("several pieces of work share a turn", async () => {
  const { clock, sleeps, work } = working(1);
  const turns = new Turns(clock);
  for (let i = 0; i < 2; i++) await turns.run(work(9));
  assertEquals(sleeps, []);
  await turns.run(work(2));
  assertEquals(sleeps.length, 1);
});

Deno.test("a server answers while work goes on in turns", async () => {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("ok"),
  );
  const client = new Deno.Command(Deno.execPath(), {
    args: [
      "eval",
      `for (let i = 0; i < 3; i++) await (await fetch("http://127.0.0.1:${server.addr.port}/")).text();`,
    ],
  }).spawn();
  let isAnswered = false;
  const answered = client.status.then(({ success }) => {
    isAnswered = true;
    return success;
  });
  const clock = {
    monotonic: () => performance.now(),
    sleep: (milliseconds: number) =>
      new Promise<void>((resolve) => setTimeout(resolve, milliseconds)),
  };
  const enough = performance.now() + 60_000;
  await new Turns(clock).run(function* () {
    while (!isAnswered && performance.now() < enough) {
      const end = performance.now() + 1;
      while (performance.now() < end);
      yield undefined;
    }
    return undefined;
  }());
  assert(isAnswered, "the work never gave way to the server");
  assert(await answered);
});

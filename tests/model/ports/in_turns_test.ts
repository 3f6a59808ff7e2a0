import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { sorting, Turns } from "../../../lib/model/ports/in_turns.ts";

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

Deno.test("work that yields often gives way by the time that it took, and not each time", async () => {
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

Deno.test("several pieces of work share a turn; what is short gives way to nothing", async () => {
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

Deno.test("sorting in turns gives what toSorted does, entries that are equal in their order", () => {
  const byAge = (a: { readonly age: number }, b: { readonly age: number }) => a.age - b.age;
  const lists = fc.array(fc.record({ age: fc.nat(50) }), { minLength: 900, maxLength: 5_000 });
  fc.assert(
    fc.property(lists, (list) => {
      assertEquals([...sorting(list, byAge)].filter((each) => each), list.toSorted(byAge));
    }),
    { numRuns: 10 },
  );
});

Deno.test("a long list is sorted in many turns", () => {
  const list = Array.from({ length: 100_000 }, (_, i) => ({ rank: i * 7919 % 100_000 }));
  const given = [...sorting(list, (a, b) => a.rank - b.rank)];
  const turns = given.indexOf(list.find(({ rank }) => rank === 0));
  assert(turns >= 100, `${turns} turns before the first one`);
  assertEquals(given.length, list.length + turns);
});

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { ConnectionSums, LATEST } from "../../../lib/observe/connections/sums.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import type { FrontendCount } from "../../../lib/model/kernel/connections.ts";

/** A kernel with one frontend, whose element is written again now and then. */
class Kernel {
  readonly sums: ConnectionSums;
  sum = 0;
  made = 0;
  #element = 0;

  constructor(tellsGone: boolean) {
    this.sums = new ConnectionSums((_, more) => {
      this.sum += more;
    }, { tellsGone });
    this.read();
  }

  connect(times: number): void {
    this.made += times;
    this.#element += times;
  }

  /** @returns what is told of it */
  rewrite(): FrontendCount {
    const last = this.#count;
    this.#element = 0;
    return last;
  }

  get #count(): FrontendCount {
    return {
      frontend: "IPv4 10.0.0.1 . tcp . 80",
      service: "shop/web",
      connections: this.#element,
    };
  }

  read(meanwhile: () => void = () => {}): void {
    this.sums.begin();
    const count = this.#count;
    meanwhile();
    this.sums.seen(count);
    atOnce(this.sums.end());
  }
}

Deno.test("what an element had counted when it was written again is not lost", () => {
  const kernel = new Kernel(true);
  kernel.connect(40);
  kernel.read();
  kernel.connect(10);
  kernel.sums.gone(kernel.rewrite());
  kernel.connect(60);
  kernel.read();
  assertEquals(kernel.sum, 110);
});

Deno.test("no connection counts twice where the word of a new element comes after the reading", () => {
  for (const since of [0, 3]) {
    const kernel = new Kernel(true);
    kernel.connect(40);
    kernel.read();
    kernel.connect(10);
    const last = kernel.rewrite();
    kernel.connect(since);
    kernel.read();
    assertEquals(kernel.sum, 40);
    kernel.sums.gone(last);
    kernel.read();
    assertEquals(kernel.sum, 50 + since);
  }
});

Deno.test("no connection counts twice where the word of an element comes after two readings, or more", () => {
  for (const readings of [1, 2, 3, LATEST]) {
    const kernel = new Kernel(true);
    kernel.connect(40);
    kernel.read();
    kernel.connect(10);
    const last = kernel.rewrite();
    for (let i = 0; i < readings; i++) {
      kernel.connect(3);
      kernel.read();
    }
    kernel.sums.gone(last);
    kernel.read();
    assertEquals(kernel.sum, kernel.made);
  }
});

Deno.test("no connection counts twice where an element has passed the one before when the word of that one comes", () => {
  const kernel = new Kernel(true);
  kernel.connect(40);
  kernel.read();
  const last = kernel.rewrite();
  kernel.connect(60);
  kernel.read();
  kernel.sums.gone(last);
  kernel.read();
  assertEquals(kernel.sum, 100);
});

Deno.test("what was taken for gone is forgotten where its word never comes: later ones count whole", () => {
  const kernel = new Kernel(true);
  kernel.connect(40);
  kernel.read();
  kernel.rewrite();
  for (let i = 0; i < LATEST + 3; i++) kernel.read();
  kernel.connect(30);
  kernel.sums.gone(kernel.rewrite());
  assertEquals(kernel.sum, 70);
});

Deno.test("an element that is written again while the kernel is read counts once", () => {
  const kernel = new Kernel(true);
  kernel.connect(40);
  kernel.read(() => kernel.sums.gone(kernel.rewrite()));
  kernel.connect(5);
  kernel.read();
  assertEquals(kernel.sum, 45);
});

Deno.test("where nothing is told of it, an element that has less counts from nothing", () => {
  const kernel = new Kernel(false);
  kernel.connect(40);
  kernel.read();
  kernel.rewrite();
  kernel.connect(3);
  kernel.read();
  assertEquals(kernel.sum, 43);
});

Deno.test("a word that never comes is not waited for for ever", () => {
  const kernel = new Kernel(true);
  kernel.connect(40);
  kernel.read();
  kernel.rewrite();
  kernel.connect(3);
  kernel.read();
  kernel.connect(2);
  kernel.read();
  assertEquals(kernel.sum, 45);
});

Deno.test("a frontend that another Service takes over counts from nothing", () => {
  const added: [string, number][] = [];
  const sums = new ConnectionSums(({ service }, more) => added.push([service, more]), {
    tellsGone: false,
  });
  for (const [service, connections] of [["a/old", 0], ["a/old", 4], ["a/new", 9]] as const) {
    sums.begin();
    sums.seen({ frontend: "IPv4 tcp . 30080", service, connections });
    atOnce(sums.end());
  }
  assertEquals(added, [["a/old", 4], ["a/new", 9]]);
});

Deno.test("what was counted before the first reading was told by another process", () => {
  for (const count of [40, 50]) {
    let sum = 0;
    const sums = new ConnectionSums((_, more) => sum += more, { tellsGone: true });
    const frontend = { frontend: "IPv4 tcp . 30080", service: "shop/web" };
    const read = (connections: number) => {
      sums.begin();
      sums.seen({ ...frontend, connections });
      atOnce(sums.end());
    };
    sums.gone({ ...frontend, connections: 7 });
    read(40);
    read(count);
    assertEquals(sum, count - 40);
  }
});

Deno.test("an element that is written again during the first reading counts from nothing", () => {
  let sum = 0;
  const sums = new ConnectionSums((_, more) => sum += more, { tellsGone: true });
  const count = { frontend: "IPv4 tcp . 30080", service: "shop/web", connections: 40 };
  sums.begin();
  sums.gone(count);
  sums.seen(count);
  atOnce(sums.end());
  sums.begin();
  sums.seen({ ...count, connections: 2 });
  atOnce(sums.end());
  assertEquals(sum, 2);
});

Deno.test("a reading that failed changes nothing", () => {
  const kernel = new Kernel(true);
  kernel.connect(7);
  kernel.read();
  kernel.sums.begin();
  kernel.sums.fail();
  kernel.connect(1);
  kernel.read();
  assertEquals(kernel.sum, 8);
});

/** What happens to a frontend, in any order. */
const step = fc.oneof(
  fc.nat({ max: 50 }).map((times) => ({ type: "connect" as const, times })),
  fc.constantFrom(
    "rewrite" as const,
    "tell" as const,
    "lose" as const,
    "read" as const,
    "readAndTell" as const,
  )
    .map((type) => ({ type })),
);

Deno.test("property: sums never fall, never pass what was made, and reach it where all is told, however late", () => {
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, losesWords) => {
    const kernel = new Kernel(true);
    const told: { readonly last: FrontendCount; readings: number }[] = [];
    const tell = () => {
      const first = told.shift();
      if (first) kernel.sums.gone(first.last);
    };
    let before = 0;
    for (const each of steps) {
      if (each.type === "connect") kernel.connect(each.times);
      else if (each.type === "rewrite") told.push({ last: kernel.rewrite(), readings: 0 });
      else if (each.type === "tell") tell();
      else if (each.type === "lose") {
        if (losesWords) told.shift();
      } else {
        for (const word of told) word.readings++;
        kernel.read(each.type === "read" ? undefined : tell);
        while ((told[0]?.readings ?? 0) > LATEST) tell();
      }
      if (kernel.sum < before || kernel.sum > kernel.made) return false;
      before = kernel.sum;
    }
    while (told.length > 0) tell();
    kernel.read();
    return kernel.sum <= kernel.made && (losesWords || kernel.sum === kernel.made);
  }));
});

Deno.test("property: where nothing is told, sums never fall nor pass what was made", () => {
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
    const kernel = new Kernel(false);
    let before = 0;
    for (const each of steps) {
      if (each.type === "connect") kernel.connect(each.times);
      else if (each.type === "rewrite") kernel.rewrite();
      else kernel.read();
      if (kernel.sum < before || kernel.sum > kernel.made) return false;
      before = kernel.sum;
    }
    return true;
  }));
});

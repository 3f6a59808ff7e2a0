import { assertEquals } from "@std/assert";
import { parseHolders } from "../../lib/system/runtime.ts";
import { runWithFewDescriptors } from "../support/few_descriptors.ts";

const LOCK = `
  import { AbstractSocketLock } from "${
  new URL("../../lib/system/runtime.ts", import.meta.url).href
}";
  import { DenoProcessRunner } from "${
  new URL("../../lib/system/process.ts", import.meta.url).href
}";
  const runner = new DenoProcessRunner();
  const self = { pid: 7, version: "0.1.0-rc.1+a", since: "2026-01-02T03:04:05.000Z" };
  const lock = new AbstractSocketLock(runner);
`;

Deno.test("the lock is taken once in a network namespace", async () => {
  const { stdout, stderr } = await runWithFewDescriptors(
    `${LOCK}
    const second = new AbstractSocketLock(runner);
    console.log(await lock.holder(), lock.take(self), lock.take(self), second.take(self));
    console.log(JSON.stringify(await second.holder()));`,
    "unshare -n",
  );
  const holder = '{"pid":7,"version":"0.1.0-rc.1+a","since":"2026-01-02T03:04:05.000Z"}';
  assertEquals(stdout, `undefined true true false\n${holder}\n`, stderr);
});

Deno.test("connections to the lock are refused and use no descriptors of its holder", async () => {
  const { stdout, stderr } = await runWithFewDescriptors(
    `${LOCK}
    lock.take(self);
    let accepted = 0;
    for (let i = 0; i < 200; i++) {
      const connecting = Deno.connect({ transport: "unix", path: "\\0signpost" });
      await connecting.then(() => accepted++, () => {});
    }
    console.log(accepted);`,
    "unshare -n",
  );
  assertEquals(stdout, "0\n", stderr);
});

Deno.test("the name of the holder is parsed", () => {
  const line = (name: string) =>
    `0000000000000000: 00000002 00000000 00000000 0002 01 20583 ${name}`;
  const name = "@signpost/4711/0.1.0/2026-01-02T03:04:05.000Z";
  const good = { pid: 4711, version: "0.1.0", since: "2026-01-02T03:04:05.000Z" };
  assertEquals(parseHolders([line("@signpost"), line(name), line("/run/x")].join("\n")), good);
  const bad = [
    "@signpost/x/0.1.0/2026-01-02T03:04:05.000Z",
    "@signpost/99999999999/0.1.0/2026-01-02T03:04:05.000Z",
    "@signpost/1/\u001b[2J/2026-01-02T03:04:05.000Z",
    "@signpost/1/0.1.0/now",
    `x${name}`,
    `${name}/x`,
  ];
  for (const each of bad) assertEquals(parseHolders(line(each)), undefined);
  assertEquals(parseHolders([line(name), line(name.replace("4711", "1"))].join("\n")), undefined);
});

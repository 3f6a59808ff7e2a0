import { assertEquals } from "@std/assert";
import { routeLocalnet } from "../../lib/backend/sysctl.ts";
import type { ProcessResult } from "../../lib/model/ports/ports.ts";
import { ManualClock } from "../support/clock_and_log.ts";

Deno.test("a sysctl that hangs is waited for one second, is not started twice, and sets the rest later", async () => {
  const clock = new ManualClock();
  const started: string[] = [];
  const first = Promise.withResolvers<ProcessResult>();
  const runner = {
    run: (argv: readonly string[]) => {
      started.push(argv.join(" "));
      return started.length === 1
        ? first.promise
        : Promise.resolve({ code: 0, stdout: "", stderr: "" });
    },
  };
  const set = routeLocalnet({ runner, clock });
  for (let sync = 0; sync < 2; sync++) {
    let done = false;
    void set().then(() => done = true);
    await clock.advance(999);
    assertEquals(done, false);
    await clock.advance(1);
    assertEquals(done, true);
  }
  assertEquals(started, ["sysctl -n net.ipv4.conf.all.route_localnet"]);
  first.resolve({ code: 0, stdout: "0\n", stderr: "" });
  await clock.advance(0);
  assertEquals(started.at(-1), "sysctl -q -w net.ipv4.conf.all.route_localnet=1");
});

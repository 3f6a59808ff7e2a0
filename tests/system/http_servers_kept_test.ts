import { assertEquals, assertRejects } from "@std/assert";
import { type HttpHandler, textAnswer } from "../../lib/model/ports/http.ts";
import { httpListen, KeptServers } from "../../lib/system/http_servers.ts";
import { ManualClock, MemoryLogger, realClock } from "../support/clock_and_log.ts";

Deno.test("a port answers until the next daemon is ready, for 10 s at most", async () => {
  const clock = new ManualClock();
  const listen = httpListen({ clock: realClock, logger: new MemoryLogger() });
  const servers = new KeptServers({ listen, clock });
  const address = { hostname: "127.0.0.1", port: 0 };
  const is = (name: string, status: () => number): HttpHandler => () => textAnswer(name, status());
  const first = servers.keep(address, is("first", () => 200));
  const ask = async () => {
    const response = await fetch(`http://127.0.0.1:${first.port}/healthz`);
    return `${response.status} ${await response.text()}`;
  };
  await first.close();
  assertEquals(await ask(), "200 first");
  let status = 503;
  assertEquals(servers.keep(address, is("second", () => status)).port, first.port);
  assertEquals(await ask(), "200 first");
  status = 200;
  assertEquals(await ask(), "200 second");
  status = 503;
  await clock.advance(10_000);
  assertEquals(await ask(), "503 second");
  await servers[Symbol.asyncDispose]();
  await assertRejects(ask);
});

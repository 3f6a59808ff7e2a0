import { assertEquals, assertMatch } from "@std/assert";
import type { Configuration } from "../../lib/config/configuration.ts";
import { DATA_PATH } from "../../lib/observe/endpoints.ts";
import { contents, pageOf, STATUS } from "./page/contents.ts";

/** Asks for the page and for its JSON; both have the same status. */
async function ask(
  statusPage: Configuration["signpost"]["statusPage"],
  bindAddress: string,
  host = bindAddress,
): Promise<{ readonly status: number; readonly body: string }> {
  const handler = pageOf({ statusPage, bindAddress });
  const page = await handler({ method: "GET", path: "/", host });
  const data = await handler({ method: "GET", path: DATA_PATH, host });
  assertEquals(data.status, page.status);
  return page;
}

Deno.test("on loopback the page is there by itself", async () => {
  for (const address of ["127.0.0.1:10249", "[::1]:10249", "127.1.2.3:80"]) {
    assertEquals((await ask("auto", address)).status, 200, address);
  }
});

Deno.test("beyond loopback there is a line that says how to switch it on", async () => {
  for (const address of ["0.0.0.0:10249", "[::]:10249", "192.0.2.1:10249", "[fd00::1]:1"]) {
    const { status, body } = await ask("auto", address);
    assertEquals(status, 403, address);
    assertMatch(body, /^The status page is off, .*--status-page=on.*\n$/);
    assertEquals((await ask("on", address)).status, 200, address);
  }
});

Deno.test("where it is switched off it is off", async () => {
  const { status, body } = await ask("off", "127.0.0.1:10249");
  assertEquals([status, body], [403, "The status page is off: see --status-page.\n"]);
});

Deno.test("a foreign name that leads to loopback shows nothing", async () => {
  for (
    const host of ["evil.example:10249", "localhost.evil.example", "127.0.0.1.evil.example:80"]
  ) {
    assertEquals((await ask("auto", "127.0.0.1:10249", host)).status, 403, host);
  }
  for (const host of ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "localhost", ""]) {
    assertEquals((await ask("auto", "127.0.0.1:10249", host)).status, 200, host);
  }
});

Deno.test("the answer forbids everything that the page does not need", async () => {
  const handler = pageOf({ statusPage: "on", bindAddress: "0.0.0.0:10249" });
  const { headers } = await handler({ method: "GET", path: "/" });
  assertEquals(headers["Content-Type"], "text/html; charset=utf-8");
  assertEquals(headers["X-Content-Type-Options"], "nosniff");
  assertEquals(headers["X-Frame-Options"], "DENY");
  assertEquals(headers["Referrer-Policy"], "no-referrer");
  assertEquals(headers["Cache-Control"], "no-store");
  const policy = headers["Content-Security-Policy"] ?? "";
  assertMatch(policy, /default-src 'none'.*frame-ancestors 'none'/);
  assertEquals(policy.includes("unsafe"), false);
});

Deno.test("the page's JSON escapes control and bidirectional characters", async () => {
  const evil = "x\x1b[2J\n\u202eFAKE";
  const page = () => contents({ status: { ...STATUS, node: evil } });
  const handler = pageOf({ page });
  const { headers, body } = await handler({ method: "GET", path: DATA_PATH });
  assertEquals(headers["Content-Type"], "application/json");
  assertEquals(JSON.parse(body).node, "x\\u001b[2J\\n\\u202eFAKE");
});

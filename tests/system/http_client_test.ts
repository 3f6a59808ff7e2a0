import { assertEquals, assertRejects } from "@std/assert";
import { ApiClient } from "../../lib/source/api/api_client.ts";
import { WatchError } from "../../lib/source/api/failure.ts";
import { createHttpClient } from "../../lib/system/http_client.ts";
import { ANONYMOUS } from "../source/api/fakes.ts";
import { ManualClock } from "../support/clock_and_log.ts";

/** Serves a text to anyone who takes gzip, else the encoding that is asked for. Passes a client to the body. */
async function withServer(text: string, body: (client: ApiClient) => Promise<void>): Promise<void> {
  const packed = await new Response(
    new Blob([text]).stream().pipeThrough(new CompressionStream("gzip")),
  ).bytes();
  const answer = ({ headers }: Request) => {
    const encoding = headers.get("accept-encoding");
    return encoding === "gzip"
      ? new Response(packed, { headers: { "content-encoding": "gzip" } })
      : Response.json(encoding);
  };
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, answer);
  const http = createHttpClient();
  try {
    const access = { ...ANONYMOUS, server: new URL(`http://127.0.0.1:${server.addr.port}`) };
    await body(
      new ApiClient({
        http,
        access: () => Promise.resolve(access),
        readFile: () => Promise.reject(new Error("no files")),
        clock: new ManualClock(),
        userAgent: "test",
      }),
    );
  } finally {
    http.close();
  }
}

const { signal } = new AbortController();

Deno.test("lists are packed by gzip, watches are not", async () => {
  await withServer('{"items":[]}', async (client) => {
    assertEquals(await client.json("/x", { signal }), { items: [] });
    assertEquals(await client.json("/x", { query: { watch: "true" }, signal }), "identity");
  });
});

Deno.test("a list that is too large once unpacked is refused", async () => {
  await withServer(" ".repeat(64 * 1024 * 1024 + 1), async (client) => {
    await assertRejects(() => client.json("/x", { signal }), WatchError, "the answer is longer");
  });
});

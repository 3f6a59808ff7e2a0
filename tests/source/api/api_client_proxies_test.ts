/** Proxies of the environment are used by those who ask for them, and by no one else. */
import { assertEquals } from "@std/assert";
import { proxiesIn } from "../../../lib/source/api/access/access_source.ts";
import { ApiServer } from "../../support/api_server.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { run } from "../../support/command.ts";
import { makeFolder } from "../../support/folder.ts";

/** A proxy that carries connections, and remembers what it was asked for. */
function startProxy() {
  const asked: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const done = (async () => {
    for await (const client of listener) carry(client, asked).catch(() => {});
  })();
  const dispose = async () => {
    listener.close();
    await done;
  };
  const url = `http://127.0.0.1:${listener.addr.port}`;
  return { asked, url, [Symbol.asyncDispose]: dispose };
}

async function carry(client: Deno.TcpConn, asked: string[]): Promise<void> {
  const buffer = new Uint8Array(4096);
  const length = await client.read(buffer) ?? 0;
  const head = new TextDecoder().decode(buffer.subarray(0, length));
  asked.push(head.split("\r\n")[0] ?? "");
  const [, hostname = "", port = ""] = /^CONNECT ([^ ]+):(\d+) /.exec(head) ?? [];
  if (hostname === "") return client.close();
  const server = await Deno.connect({ hostname, port: Number(port) });
  await client.write(new TextEncoder().encode("HTTP/1.1 200 Connected\r\n\r\n"));
  const pipes = [client.readable.pipeTo(server.writable), server.readable.pipeTo(client.writable)];
  await Promise.allSettled(pipes);
}

async function withServers(
  options: { readonly tls: boolean },
  test: (
    ask: (serverName: string, which: string) => Promise<string>,
    asked: string[],
    url: string,
  ) => Promise<void>,
): Promise<void> {
  await using folder = await makeFolder("proxies");
  // Another loopback address than those that no proxy is asked for.
  const host = "127.0.0.2";
  const certificates = await makeCertificates(folder.path, [host, "localhost"]);
  await using server = new ApiServer({ host, ...(options.tls && { certificates }) });
  await using proxy = startProxy();
  const env = {
    ALL_PROXY: proxy.url,
    HTTPS_PROXY: proxy.url,
    http_proxy: proxy.url,
    // Deno itself would ask for its newest version once a day.
    DENO_NO_UPDATE_CHECK: "1",
  };
  const program = new URL("ask.ts", import.meta.url).pathname;
  await server.start();
  const url = `${server.url}/api/v1/services`;
  const ask = (serverName: string, which: string) =>
    run([
      ...[Deno.execPath(), "run", "--quiet", "-A", program],
      ...[url, certificates.files.authority, serverName, which],
    ], { env });
  await test(ask, proxy.asked, new URL(url).host);
}

for (const [adapter, serverName] of [["fetch", ""], ["node:https", "localhost"]] as const) {
  Deno.test(`${adapter} goes past the environment's proxies, unless they are asked for`, async () => {
    await withServers({ tls: true }, async (ask, asked, host) => {
      assertEquals(await ask(serverName, ""), "200");
      assertEquals(asked, []);
      assertEquals(await ask(serverName, "proxies"), "200");
      assertEquals(asked, [`CONNECT ${host} HTTP/1.1`]);
    });
  });
}

Deno.test("a token for an http: server does not go to a proxy that was not asked for", async () => {
  await withServers({ tls: false }, async (ask, asked, host) => {
    assertEquals(await ask("", ""), "200");
    assertEquals(asked, []);
    await ask("", "proxies");
    assertEquals(asked, [`GET http://${host}/api/v1/services HTTP/1.1`]);
  });
});

Deno.test("the variables of proxies are Go's, in upper or lower case", () => {
  const read = (variables: Readonly<Record<string, string>>) =>
    proxiesIn((name) => variables[name]);
  const never = "localhost,127.0.0.1,::1";
  assertEquals(read({}), {});
  assertEquals(read({ NO_PROXY: "x", ALL_PROXY: "http://p" }), {});
  assertEquals(read({ https_proxy: "http://p" }), { HTTPS_PROXY: "http://p", NO_PROXY: never });
  assertEquals(read({ HTTPS_PROXY: "http://p", https_proxy: "http://q", no_proxy: "10.0.0.0/8" }), {
    HTTPS_PROXY: "http://p",
    NO_PROXY: `10.0.0.0/8,${never}`,
  });
});

/**
 * Clients that keep HTTP connections to themselves, as a process of their own.
 *
 * Arguments: how many, then addresses and ports as `192.0.2.1:80`, then `idle` or a path. With a path, each client
 * asks for it again and again, and reads nothing. Those whose connection ends connect again. A line is printed
 * when each has been connected once.
 *
 * @module
 */

const PIPELINED = 50;
const PAUSE = 20;

async function keepConnected(address: string, path: string, connected: () => void) {
  const [, hostname = "", port] = /^(.*):(\d+)$/.exec(address) ?? [];
  const text = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(PIPELINED);
  const request = new TextEncoder().encode(text);
  for (;;) {
    try {
      using conn = await Deno.connect({ hostname, port: Number(port) });
      connected();
      if (path === "idle") await conn.read(new Uint8Array(1));
      else for (;;) await conn.write(request);
    } catch {
      // The server has ended the connection, or has no room for it.
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

if (import.meta.main) {
  const [count = "", address = "", path = ""] = Deno.args;
  const clients = Array.from({ length: Number(count) }, () => {
    const connected = Promise.withResolvers<void>();
    void keepConnected(address, path, connected.resolve);
    return connected.promise;
  });
  await Promise.all(clients);
  await Deno.stdout.write(new TextEncoder().encode("connected\n"));
}

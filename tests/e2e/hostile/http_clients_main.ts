/**
 * Clients that keep HTTP connections to themselves, as a process of their own.
 *
 * Arguments: how many, an address and port as `192.0.2.1:80`, then `idle`, `half`, `h2` or a path, and `close`. `half`
 * closes its own side alone. `h2` opens 200 streams of HTTP/2 without TLS. With a path, each
 * client asks for it again and again, and reads nothing. With `close`, it asks once on each connection, reads the
 * answer, and connects again after 20 ms. A client whose connection ends connects again. A line is printed when
 * each has been connected once.
 */

const PIPELINED = 50;
const PAUSE = 20;
/** Of `half`: refused connections are many, and must not take the time of a processor. */
const LONG_PAUSE = 5_000;

/** A frame of HTTP/2 (RFC 9113, 4.1). */
function frame(type: number, flags: number, stream: number, payload: readonly number[]): number[] {
  return [0, 0, payload.length, type, flags, 0, 0, stream >> 8, stream & 255, ...payload];
}

const PREFACE = [
  ...new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  ...frame(4, 0, 0, []),
];

/** `POST / http`, and the authority `x`: RFC 7541, appendix A. The streams do not end. */
const STREAMS = Array.from(
  { length: 200 },
  (_, i) => frame(1, 4, 1 + 2 * i, [0x83, 0x86, 0x84, 0x01, 1, 0x78]),
);

interface Wanted {
  readonly address: string;
  /** `idle` and `half`: no request. */
  readonly path: string;
  /** True for one request on each connection. */
  readonly closes: boolean;
}

async function keepConnected({ address, path, closes }: Wanted, connected: () => void) {
  const [, hostname = "", port] = /^(.*):(\d+)$/.exec(address) ?? [];
  const one = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n`;
  const text = closes ? `${one}Connection: close\r\n\r\n` : `${one}\r\n`.repeat(PIPELINED);
  const request = path === "h2"
    ? new Uint8Array([...PREFACE, ...STREAMS.flat()])
    : new TextEncoder().encode(text);
  for (;;) {
    try {
      using conn = await Deno.connect({ hostname, port: Number(port) });
      connected();
      if (path === "half") await conn.closeWrite();
      if (path === "idle" || path === "half") await conn.read(new Uint8Array(1));
      else if (closes || path === "h2") {
        await conn.write(request);
        while (await conn.read(new Uint8Array(4096)) !== null);
      } else for (;;) await conn.write(request);
    } catch {
      // The server has ended the connection, or has no room for it.
    }
    await new Promise((resolve) => setTimeout(resolve, path === "half" ? LONG_PAUSE : PAUSE));
  }
}

if (import.meta.main) {
  const [count = "", address = "", path = "", close] = Deno.args;
  const wanted = { address, path, closes: close === "close" };
  const clients = Array.from({ length: Number(count) }, () => {
    const connected = Promise.withResolvers<void>();
    void keepConnected(wanted, connected.resolve);
    return connected.promise;
  });
  await Promise.all(clients);
  await Deno.stdout.write(new TextEncoder().encode("connected\n"));
}

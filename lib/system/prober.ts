/** Adapter: connects to an address, sends a DNS query, or asks an API server for its health. */
import { hostPort } from "../model/cluster/names.ts";
import type { Prober, ProbeTarget, TcpAddress } from "../model/ports/ports.ts";
import { familyOf, parseAddress } from "../model/values/address.ts";
import type { TlsSettings } from "../source/api/access/access.ts";
import { createHttpClient } from "./http_client.ts";
import { tcp, tryToClose } from "./tcp.ts";

/** Implements `Prober`. */
export async function ask(
  to: ProbeTarget,
  { timeout, signal }: Parameters<Prober>[1],
): Promise<string> {
  if (to.request === "connect") {
    (await tcp().connect(to, { timeout, signal })).close();
    return "";
  }
  const end = AbortSignal.any([signal, AbortSignal.timeout(timeout)]);
  try {
    if (to.request === "readyz") return await askReadyz(to, end);
    return await (to.protocol === "udp" ? queryByUdp(to, end) : queryByTcp(to, end));
  } catch (error) {
    throw end.aborted ? end.reason : error;
  }
}

/** Accepts any certificate, since requests do not have secrets. */
const ANY_SERVER: TlsSettings = {
  authorities: undefined,
  certificate: undefined,
  key: undefined,
  serverName: undefined,
  verify: false,
};

/** Asks for `/readyz`. A server that wants credentials counts as ready too. */
async function askReadyz({ address, port }: TcpAddress, signal: AbortSignal): Promise<string> {
  const url = new URL(`https://${hostPort(address, port)}/readyz`);
  const request = { method: "GET", url, headers: {}, tls: ANY_SERVER, signal } as const;
  const { status, body } = await createHttpClient().request(request);
  for await (const _ of body);
  return status < 500 ? "" : `it answers ${status} to /readyz`;
}

/** A name in each cluster with the usual domain. Other clusters answer that it does not exist. */
const NAME = "kubernetes.default.svc.cluster.local";

/** Returns a query for the IPv4 addresses of a name (RFC 1035, section 4.1). */
function query(): Uint8Array<ArrayBuffer> {
  const id = crypto.getRandomValues(new Uint8Array(2));
  const labels = NAME.split(".").flatMap((label) => [
    label.length,
    ...new TextEncoder().encode(label),
  ]);
  return Uint8Array.from([...id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...labels, 0, 0, 1, 0, 1]);
}

const HEADER = 12;
const SERVFAIL = 2;

/** Returns the fault of an answer, or `""`; `undefined` if it answers another query. */
function faultOf(message: Uint8Array, [first, second]: Uint8Array): string | undefined {
  const [a, b, flags = 0, more = 0] = message;
  if (message.length < HEADER || a !== first || b !== second || (flags & 0x80) === 0) {
    return undefined;
  }
  return (more & 0xf) === SERVFAIL ? `it answers SERVFAIL to ${NAME}` : "";
}

/** Closes a socket at the end of its block, or at the abort, which ends its reads. */
function closing(socket: { close(): void }, signal: AbortSignal): Disposable {
  const close = () => tryToClose(socket);
  signal.addEventListener("abort", close);
  return { [Symbol.dispose]: close };
}

/** Waits for an answer from the address that was asked, as resolvers do. */
async function queryByUdp({ address, port }: TcpAddress, signal: AbortSignal): Promise<string> {
  const hostname = familyOf(address) === 4 ? "0.0.0.0" : "::";
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
  using _ = closing(socket, signal);
  const asked = query();
  await socket.send(asked, { transport: "udp", hostname: address, port });
  for (;;) {
    const [message, from] = await socket.receive();
    const isFromThere = "hostname" in from && parseAddress(from.hostname) === address &&
      from.port === port;
    const fault = isFromThere ? faultOf(message, asked) : undefined;
    if (fault !== undefined) return fault;
  }
}

async function queryByTcp({ address, port }: TcpAddress, signal: AbortSignal): Promise<string> {
  const conn = await Deno.connect({ hostname: address, port, signal });
  using _ = closing(conn, signal);
  const asked = query();
  // The length comes first.
  await conn.write(Uint8Array.from([0, asked.length, ...asked]));
  const buffer = new Uint8Array(2 + HEADER);
  for (let at = 0; at < buffer.length;) {
    const read = await conn.read(buffer.subarray(at));
    if (read === null) return "it closed the connection without an answer";
    at += read;
  }
  return faultOf(buffer.subarray(2), asked) ?? "it answers another query";
}

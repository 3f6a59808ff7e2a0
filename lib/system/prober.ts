/** Adapter: connects to an address, sends a DNS query, or asks an API server for its health. */
import { hostPort } from "../model/cluster/names.ts";
import type { Prober, ProbeTarget, TcpAddress } from "../model/ports/ports.ts";
import { familyOf, parseAddress } from "../model/values/address.ts";
import { createHttpClient } from "./http_client.ts";
import { tcp, tryToClose } from "./tcp.ts";

/** Implements `Prober`. */
export async function ask(
  to: ProbeTarget,
  { timeout, signal }: Parameters<Prober>[1],
): Promise<void> {
  if (to.request === "connect") return (await tcp().connect(to, { timeout, signal })).close();
  const end = AbortSignal.any([signal, AbortSignal.timeout(timeout)]);
  try {
    await (to.request === "readyz" ? askReadyz(to, end) : queryDns(to, end));
  } catch (error) {
    throw end.aborted ? end.reason : error;
  }
}

/** Asks any server for `/readyz`, without secrets. A server that wants credentials counts as ready too. */
async function askReadyz({ address, port }: TcpAddress, signal: AbortSignal): Promise<void> {
  const url = new URL(`https://${hostPort(address, port)}/readyz`);
  const request = { method: "GET", url, headers: {}, tls: { verify: false }, signal } as const;
  const { status, body } = await createHttpClient().request(request);
  for await (const _ of body);
  if (status >= 500) throw new Error(`it answers ${status} to /readyz`);
}

/** Asks for a name that exists in most clusters. Other clusters answer that it does not exist. */
const NAME = "kubernetes.default.svc.cluster.local";

/** A query for the IPv4 addresses of the name (RFC 1035, section 4.1). */
const QUERY = Uint8Array.from([
  ...[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0],
  ...NAME.split(".").flatMap((label) => [label.length, ...new TextEncoder().encode(label)]),
  ...[0, 0, 1, 0, 1],
]);
const SERVFAIL = 2;

/** Waits for an answer from the address that was asked, as resolvers do. The abort closes the socket. */
async function queryDns({ address, port }: TcpAddress, signal: AbortSignal): Promise<void> {
  const hostname = familyOf(address) === 4 ? "0.0.0.0" : "::";
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
  const close = () => tryToClose(socket);
  signal.addEventListener("abort", close);
  try {
    await socket.send(QUERY, { transport: "udp", hostname: address, port });
    for (;;) {
      const [[, id, flags = 0, more = 0], from] = await socket.receive();
      const isFromThere = "hostname" in from && parseAddress(from.hostname) === address &&
        from.port === port;
      if (!isFromThere || id !== QUERY[1] || (flags & 0x80) === 0) continue;
      if ((more & 0xf) === SERVFAIL) throw new Error(`it answers SERVFAIL to ${NAME}`);
      return;
    }
  } finally {
    close();
  }
}

/** Adapter: HTTP ports over `Deno.serve`. */
import { messageOf } from "../model/values/errors.ts";
import { hostPort } from "../model/cluster/names.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import type { HttpHandler, HttpListen, HttpListener, ListenAddress } from "../model/ports/http.ts";

/** Milliseconds between attempts to bind, as kube-proxy's. */
const RETRY_MILLISECONDS = 5_000;

/** Milliseconds until a port that lacked a descriptor is opened again. */
const REOPEN_MILLISECONDS = 100;

/** Milliseconds between two log lines about descriptors. */
const WARN_MILLISECONDS = 60_000;

/** Connections that wait for accept(2), as in Go: Linux has at most 4096 by default. */
const BACKLOG = 4_096;

/** Characters of a body that are sent at once: a client that does not read holds no more. */
const CHUNK = 65_536;

/**
 * Returns a function that listens. It throws the errors of bind(2). As in kube-proxy, descriptors alone bound the
 * connections. If none is free, all connections are ended: idle clients must not keep out probes or pipes to `nft`.
 */
export function httpListen({ clock, logger }: {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly logger: Pick<Logger, "warn">;
}): HttpListen {
  /** One function for each port, which ends its connections. */
  const ports = new Set<() => void>();
  let warnedAt = -Infinity;
  const acceptFailed = (error: unknown) => {
    for (const endConnections of ports) endConnections();
    if (clock.monotonic() - warnedAt < WARN_MILLISECONDS) return;
    warnedAt = clock.monotonic();
    const message = "cannot accept a connection; ended all connections to the HTTP ports";
    logger.warn(message, { error: messageOf(error) });
  };
  const listenOn = (address: ListenAddress, handler: HttpHandler): HttpListener => {
    const closing = new AbortController();
    const { signal } = closing;
    let server = serve(address, handler);
    const { port } = server;
    const endConnections = () => server.end();
    ports.add(endConnections);
    const served = (async () => {
      while (!signal.aborted) {
        await server.finished.catch(acceptFailed);
        while (!signal.aborted) {
          try {
            server = serve({ ...address, port }, handler);
            break;
          } catch {
            await clock.sleep(REOPEN_MILLISECONDS, signal);
          }
        }
      }
      ports.delete(endConnections);
    })();
    const close = () => {
      closing.abort();
      endConnections();
      return served;
    };
    return { port, close };
  };
  return (address, handler) =>
    address.hostname === "::"
      ? listenEverywhere(address.port, (each) => listenOn(each, handler))
      : listenOn(address, handler);
}

/** Listens on all addresses: IPv4 alone if IPv6 is off, and two sockets if `bindv6only` is set. */
function listenEverywhere(
  port: number,
  listen: (address: ListenAddress) => HttpListener,
): HttpListener {
  let both: HttpListener;
  try {
    both = listen({ hostname: "::", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return listen({ hostname: "0.0.0.0", port });
  }
  try {
    const four = listen({ hostname: "0.0.0.0", port: both.port });
    return {
      port: both.port,
      close: async () => void await Promise.all([both.close(), four.close()]),
    };
  } catch {
    return both; // The first socket has IPv4 already.
  }
}

/** Serves a socket until accept(2) fails, so that `finished` rejects, or `end` is called. Open connections stay. */
function serve({ hostname, port }: ListenAddress, handler: HttpHandler) {
  const stop = new AbortController();
  const { addr, finished } = Deno.serve(
    {
      hostname,
      port,
      tcpBacklog: BACKLOG,
      signal: stop.signal,
      onListen: () => {},
      onError: () => new Response("internal error\n", { status: 500 }),
    },
    (request, { remoteAddr }) => respond(request, { handler, client: remoteAddr.hostname }),
  );
  return { port: addr.port, finished, end: () => stop.abort() };
}

async function respond(
  request: Request,
  { handler, client }: { readonly handler: HttpHandler; readonly client: string },
): Promise<Response> {
  const url = URL.parse(request.url);
  if (!url) return new Response("bad request\n", { status: 400 });
  const { method } = request;
  const { pathname: path, search, host } = url;
  // On a socket of both families, IPv4 clients are `::ffff:192.0.2.1`.
  const family = client.includes(".") ? 4 : 6;
  const { status, headers, body } = await handler({ method, path, search, host, family });
  return new Response(body.length > CHUNK ? stream(body) : body, { status, headers });
}

function stream(text: string): ReadableStream<Uint8Array> {
  const chunks = function* () {
    for (let at = 0; at < text.length; at += CHUNK) yield text.slice(at, at + CHUNK);
  };
  return ReadableStream.from(chunks()).pipeThrough(new TextEncoderStream());
}

export interface ServeOptions {
  /** For the log, for example `healthz`. */
  readonly name: string;
  readonly handler: HttpHandler;
  /** `bindAddressHardFail`: the first failure is final. */
  readonly hardFail: boolean;
  readonly listen: HttpListen;
  /** Called with each new reason for which it cannot listen. */
  readonly failed?: (message: string) => void;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Serves until the signal aborts. Binding is tried again every five seconds, unless `hardFail` is set.
 * @param address `0.0.0.0` and `::` are all addresses of both families, as in Go
 */
export async function serveHttp(address: ListenAddress, options: ServeOptions): Promise<void> {
  const { name, handler, hardFail, listen, failed, clock, logger, signal } = options;
  const { port } = address;
  const hostname = address.hostname === "0.0.0.0" ? "::" : address.hostname;
  const where = hostPort(address.hostname, port);
  let lastReason: string | undefined;
  while (!signal.aborted) {
    try {
      const listener = listen({ hostname, port }, handler);
      const at = hostPort(address.hostname, listener.port);
      logger.debug(1, "listening", { server: name, address: at });
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return await listener.close();
    } catch (error) {
      const reason = messageOf(error);
      const message = `${name} server: cannot listen on ${where}: ${reason}`;
      if (reason !== lastReason) failed?.(message);
      if (hardFail) throw new Error(message, { cause: error });
      const fields = { server: name, address: where, error: reason };
      if (reason !== lastReason) {
        logger.error("cannot listen; trying again every 5 seconds", fields);
      }
      lastReason = reason;
    }
    await clock.sleep(RETRY_MILLISECONDS, signal);
  }
}

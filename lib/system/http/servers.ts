/**
 * Adapter: HTTP servers on sockets, with `Deno.serve`.
 *
 * It binds synchronously, so that a port that is taken shows at once, serves IPv6, and its abort
 * signal ends listener and connections together, which frees the port for the next one.
 *
 * @module
 */
import { hostPort } from "../../model/names.ts";
import type { Clock, Logger } from "../../model/ports.ts";
import { ChangeFilter } from "../../model/change_filter.ts";
import type { HttpHandler, HttpListen, HttpListener, ListenAddress } from "../../model/http.ts";

/** Milliseconds between attempts to bind, as kube-proxy's. */
const RETRY_MILLISECONDS = 5_000;

const WILDCARDS: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);

/**
 * Listens on one address, or on all addresses of both families.
 *
 * @param address `0.0.0.0` and `::` mean the same, as for kube-proxy
 * @param handler answers requests; if it throws, the client gets 500
 * @throws {Deno.errors.AddrInUse} and other errors of bind(2)
 */
export function listenHttp(address: ListenAddress, handler: HttpHandler): HttpListener {
  return WILDCARDS.has(address.hostname)
    ? listenEverywhere(address.port, handler)
    : listenOn(address, handler);
}

/** Where IPv6 is off there is IPv4 alone; where `bindv6only` is set, two sockets are needed. */
function listenEverywhere(port: number, handler: HttpHandler): HttpListener {
  let both: HttpListener;
  try {
    both = listenOn({ hostname: "::", port }, handler);
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return listenOn({ hostname: "0.0.0.0", port }, handler);
  }
  try {
    return join(both, listenOn({ hostname: "0.0.0.0", port: both.port }, handler));
  } catch {
    return both; // The first socket has IPv4 already.
  }
}

function join(first: HttpListener, second: HttpListener): HttpListener {
  const close = async () => {
    await Promise.all([first.close(), second.close()]);
  };
  const finished = Promise.race([first.finished, second.finished]).then(close);
  return { port: first.port, finished, close };
}

function listenOn({ hostname, port }: ListenAddress, handler: HttpHandler): HttpListener {
  const controller = new AbortController();
  const server = Deno.serve(
    { hostname, port, signal: controller.signal, onListen: () => {}, onError: internalError },
    (request) => respond(request, handler),
  );
  return {
    port: server.addr.port,
    finished: server.finished,
    close: () => {
      controller.abort();
      return server.finished;
    },
  };
}

async function respond(request: Request, handler: HttpHandler): Promise<Response> {
  const { method, url } = request;
  const { pathname: path, search } = new URL(url);
  const host = request.headers.get("host") ?? "";
  const { status, headers, body } = await handler({ method, path, search, host });
  return new Response(method === "HEAD" ? null : body, { status, headers: { ...headers } });
}

function internalError(): Response {
  return new Response("internal error\n", { status: 500 });
}

/** What `serveHttp` needs. */
export interface ServeOptions {
  /** For the log, for example `healthz`. */
  readonly name: string;
  readonly handler: HttpHandler;
  /** `bindAddressHardFail`: the first failure is final. */
  readonly hardFail: boolean;
  readonly listen: HttpListen;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Serves until the signal aborts. Binding is tried again every five seconds.
 *
 * @param address where to listen
 * @param options see there
 * @throws {Error} where binding fails and `hardFail` is set
 */
export async function serveHttp(address: ListenAddress, options: ServeOptions): Promise<void> {
  const { name, hardFail, clock, logger, signal } = options;
  const where = hostPort(address.hostname, address.port);
  const failures = new ChangeFilter();
  while (!signal.aborted) {
    try {
      await serveOnce(address, options);
      failures.clear(name);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (hardFail) {
        throw new Error(`${name} server: cannot listen on ${where}: ${reason}`, { cause: error });
      }
      if (failures.changed(name, reason)) {
        logger.error("cannot listen; trying again every 5 seconds", {
          server: name,
          address: where,
          error: reason,
        });
      }
    }
    await clock.sleep(RETRY_MILLISECONDS, signal);
  }
}

async function serveOnce(address: ListenAddress, options: ServeOptions): Promise<void> {
  const { name, listen, handler, logger, signal } = options;
  const listener = listen(address, handler);
  logger.debug(1, "listening", {
    server: name,
    address: hostPort(address.hostname, listener.port),
  });
  const stop = () => void listener.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    await listener.finished;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

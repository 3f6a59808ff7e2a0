/**
 * Adapter: HTTP servers on one address or on all, tried again where an address cannot be bound.
 *
 * @module
 */
import { messageOf } from "../../model/values/errors.ts";
import { hostPort } from "../../model/cluster/names.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { ChangeFilter } from "../../model/values/change_filter.ts";
import type {
  HttpHandler,
  HttpListen,
  HttpListener,
  ListenAddress,
} from "../../model/ports/http.ts";
import { ConnectionPool, type HttpLimits, serveOn } from "./http_server.ts";

/** Milliseconds between attempts to bind, as kube-proxy's. */
const RETRY_MILLISECONDS = 5_000;

const WILDCARDS: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);

/** Health checks and scrapes take milliseconds; more clients than these are none of them. */
const LIMITS: HttpLimits = { connections: 256, time: 30_000 };

/**
 * Makes a way to listen on one address, or on all addresses of both families (`0.0.0.0` and `::`
 * mean the same, as for kube-proxy). All listeners share the limits.
 *
 * @param limits 256 connections of 30 seconds without a request by default
 * @returns throws `Deno.errors.AddrInUse` and other errors of bind(2)
 */
export function httpListen(limits: HttpLimits = LIMITS): HttpListen {
  return listenWith(limits, WILDCARDS);
}

/** As `httpListen`, but `0.0.0.0` are the addresses of IPv4 alone. */
export function httpListenByFamily(limits: HttpLimits = LIMITS): HttpListen {
  return listenWith(limits, new Set(["::"]));
}

function listenWith(limits: HttpLimits, everywhere: ReadonlySet<string>): HttpListen {
  const pool = new ConnectionPool(limits);
  return (address, handler) =>
    everywhere.has(address.hostname)
      ? listenEverywhere(address.port, { handler, pool })
      : serveOn(address, { handler, pool });
}

/** Listens with limits of its own; see `httpListen`. */
export function listenHttp(address: ListenAddress, handler: HttpHandler): HttpListener {
  return httpListen()(address, handler);
}

interface Serving {
  readonly handler: HttpHandler;
  readonly pool: ConnectionPool;
}

/** Where IPv6 is off there is IPv4 alone; where `bindv6only` is set, two sockets are needed. */
function listenEverywhere(port: number, serving: Serving): HttpListener {
  let both: HttpListener;
  try {
    both = serveOn({ hostname: "::", port }, serving);
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return serveOn({ hostname: "0.0.0.0", port }, serving);
  }
  try {
    return join(both, serveOn({ hostname: "0.0.0.0", port: both.port }, serving));
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

/** What `serveHttp` needs. */
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
 * Serves until the signal aborts. Binding is tried again every five seconds.
 *
 * @param address where to listen
 * @param options see there
 * @throws {Error} where binding fails and `hardFail` is set
 */
export async function serveHttp(address: ListenAddress, options: ServeOptions): Promise<void> {
  const { name, hardFail, failed, clock, logger, signal } = options;
  const where = hostPort(address.hostname, address.port);
  const failures = new ChangeFilter();
  while (!signal.aborted) {
    try {
      await serveOnce(address, options);
      failures.clear(name);
    } catch (error) {
      const reason = messageOf(error);
      const message = `${name} server: cannot listen on ${where}: ${reason}`;
      const isNew = failures.changed(name, reason);
      if (isNew) failed?.(message);
      if (hardFail) throw new Error(message, { cause: error });
      if (isNew) {
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

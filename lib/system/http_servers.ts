/** Adapter: serves HTTP/1 ports. It bounds what a client and a connection can use. */
import { messageOf } from "../model/values/errors.ts";
import { familyOf, parseAddress, parseCidr } from "../model/values/address.ts";
import { hostPort } from "../model/cluster/names.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import {
  type HttpAnswer,
  type HttpHandler,
  type HttpListen,
  type HttpListener,
  type ListenAddress,
  textAnswer,
} from "../model/ports/http.ts";
import { formatHead, headLength, MOST_HEAD, parseHead, type RequestHead } from "./http_message.ts";
import { acceptAll, tryToClose } from "./tcp.ts";

/** Milliseconds between attempts to bind, as kube-proxy's. */
const RETRY_MILLISECONDS = 5_000;

/** Milliseconds until accept(2) is tried again after an error. */
const ACCEPT_PAUSE = 20;

/** Milliseconds between two log lines about descriptors. */
const WARN_MILLISECONDS = 60_000;

/** Milliseconds in which a client must take an answer, as Prometheus' default for a scrape. */
const ANSWER_MILLISECONDS = 10_000;

/** Milliseconds in which a client must close its side after the last answer. */
const DRAIN_MILLISECONDS = 1_000;

/** Connections that wait for accept(2), as in Go: Linux has at most 4096 by default. */
const BACKLOG = 4_096;

/** Limits of open connections to all ports, by source and in total. Clients replace a closed connection at once. */
const MOST_OF_SOURCE = 10_000;
const MOST_CONNECTIONS = 20_000;

/** Bytes of a buffer at first. An idle connection holds at most this. */
const SMALL = 1_024;

/** The limit of requests on one connection. */
const MOST_REQUESTS = 100;

const ENCODER = new TextEncoder();
const LATIN1 = new TextDecoder("latin1");

interface ServersOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly logger: Pick<Logger, "warn">;
  /** Called when the last connection has ended. */
  readonly idle?: () => void;
}

/** An accepted connection. */
interface Client {
  readonly conn: Deno.TcpConn;
  readonly source: Source;
}

/** The origin of connections: the programs of this node, another IPv4 address, or a /64 of IPv6 addresses. */
interface Source {
  readonly name: string;
  readonly clients: Set<Client>;
  /** Resolves when its next request may be answered. */
  turn: Promise<void>;
}

/** The name of this node as a source. */
const NODE = "node";

/**
 * Returns a function that listens. It throws the errors of bind(2). Above a limit, the oldest connection ends, so that
 * idle clients do not block probes.
 */
export function httpListen(options: ServersOptions): HttpListen {
  const clients = new Clients(options);
  return (address, handler) =>
    address.hostname === "::"
      ? listenEverywhere(address.port, (each) => listenOn(each, { handler, clients }))
      : listenOn(address, { handler, clients });
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

/** Accepts connections until `close` is called. The socket stays open without a free descriptor. */
function listenOn(
  address: ListenAddress,
  { handler, clients }: { readonly handler: HttpHandler; readonly clients: Clients },
): HttpListener {
  const listener = Deno.listen({ ...address, tcpBacklog: BACKLOG });
  const open = new Set<Deno.TcpConn>();
  const accepted = acceptAll(listener, {
    accept: (conn) => {
      open.add(conn);
      void clients.serve(conn, handler).then(() => open.delete(conn));
    },
    failed: (error) => clients.acceptFailed(error),
  });
  return {
    port: listener.addr.port,
    close: async () => {
      tryToClose(listener);
      for (const conn of open) tryToClose(conn);
      // Deno closes the socket when the pending accept(2) has ended.
      await accepted;
    },
  };
}

function sourceOf({ localAddr, remoteAddr: { hostname } }: Deno.TcpConn): string {
  // The kernel uses the address itself as source if a program of the node connects to it.
  if (hostname === localAddr.hostname) return NODE;
  const address = parseAddress(hostname) ?? hostname;
  return familyOf(address) === 6 ? parseCidr(`${address}/64`) ?? address : address;
}

/** Holds all connections, and orders their answers. */
class Clients {
  readonly #all = new Set<Client>();
  readonly #sources = new Map<string, Source>();
  #warnedAt = -Infinity;
  /** The last large body, encoded once for all readers. */
  #large: { readonly text: string; readonly bytes: Uint8Array<ArrayBuffer> } | undefined;

  constructor(private readonly options: ServersOptions) {}

  /** Answers on a connection until it ends. Never rejects. */
  async serve(conn: Deno.TcpConn, handler: HttpHandler): Promise<void> {
    const client = this.#add(conn);
    try {
      await this.#converse(client, handler);
    } catch {
      // The client has gone, or its connection was closed.
    } finally {
      this.#end(client);
    }
  }

  #add(conn: Deno.TcpConn): Client {
    const name = sourceOf(conn);
    const source = this.#sources.get(name) ??
      { name, clients: new Set(), turn: Promise.resolve() };
    if (source.clients.size >= MOST_OF_SOURCE) this.#endOldest(source.clients);
    if (this.#all.size >= MOST_CONNECTIONS) this.#endOldest(this.#all);
    const client = { conn, source };
    this.#sources.set(name, source);
    source.clients.add(client);
    this.#all.add(client);
    return client;
  }

  /** Handles an error of accept(2). Ends all connections, whose descriptors probes and pipes to `nft` need. */
  async acceptFailed(error: unknown): Promise<void> {
    const { clock, logger } = this.options;
    for (const { conn } of this.#all) tryToClose(conn);
    if (clock.monotonic() - this.#warnedAt >= WARN_MILLISECONDS) {
      this.#warnedAt = clock.monotonic();
      const message = "cannot accept a connection; ended all connections to the HTTP ports";
      logger.warn(message, { error: messageOf(error) });
    }
    await clock.sleep(ACCEPT_PAUSE);
  }

  #endOldest(clients: Iterable<Client>): void {
    for (const client of clients) return this.#end(client);
  }

  #end(client: Client): void {
    // A client that was ended as the oldest comes here again. By then another source may have the name of its source.
    if (!this.#all.delete(client)) return;
    const { conn, source: { name, clients } } = client;
    tryToClose(conn);
    clients.delete(client);
    if (clients.size === 0) this.#sources.delete(name);
    if (this.#all.size === 0) this.options.idle?.();
  }

  async #converse({ conn, source }: Client, handler: HttpHandler): Promise<void> {
    const family = familyOf(parseAddress(conn.remoteAddr.hostname) ?? "");
    const input = new Input(conn);
    for (let left = MOST_REQUESTS; left > 0; left--) {
      const text = await input.head();
      if (text === undefined) return;
      // A probe of this node has a new connection, and does not wait.
      if (source.name !== NODE || left < MOST_REQUESTS) await this.#turnOf(source);
      const head = text === "" ? undefined : parseHead(text);
      if (!head) {
        const status = text === "" ? 431 : 400;
        const refused = { method: "GET", minor: "1", isLast: true };
        await this.#send(conn, textAnswer("bad request\n", status), refused);
        return await input.drain();
      }
      const isLast = head.isLast || left === 1;
      await this.#send(conn, await answered(handler, { ...head, family }), { ...head, isLast });
      if (isLast) return await input.drain();
    }
  }

  /**
   * Waits for a turn of the event loop. In a turn, one request of each source is answered. A sleep of 0 would also wait
   * for long work.
   */
  #turnOf(source: Source): Promise<void> {
    return source.turn = source.turn.then(() => this.options.clock.sleep(1));
  }

  async #send(
    conn: Deno.TcpConn,
    answer: HttpAnswer,
    { method, minor, isLast }: Pick<RequestHead, "method" | "minor" | "isLast">,
  ): Promise<void> {
    const body = this.#encode(answer.body);
    const head = ENCODER.encode(formatHead(answer, { length: body.length, minor, isLast }));
    const late = setTimeout(() => tryToClose(conn), ANSWER_MILLISECONDS);
    try {
      await writeAll(conn, head);
      if (method !== "HEAD") await writeAll(conn, body);
    } finally {
      clearTimeout(late);
    }
  }

  #encode(text: string): Uint8Array {
    if (text.length < MOST_HEAD) return ENCODER.encode(text);
    if (this.#large?.text !== text) this.#large = { text, bytes: ENCODER.encode(text) };
    return this.#large.bytes;
  }
}

async function answered(handler: HttpHandler, request: RequestHead): Promise<HttpAnswer> {
  try {
    return await handler(request);
  } catch {
    return textAnswer("internal error\n", 500);
  }
}

async function writeAll(conn: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** Reads the heads of the requests on a connection. */
class Input {
  #buffer = new Uint8Array(SMALL);
  #held = 0;

  constructor(private readonly conn: Deno.TcpConn) {}

  /** Returns the next head; "" if it is too long, `undefined` if the connection ends. */
  async head(): Promise<string | undefined> {
    let length: number | undefined;
    while ((length = headLength(this.#buffer.subarray(0, this.#held))) === undefined) {
      if (this.#held === MOST_HEAD) return "";
      if (this.#held === this.#buffer.length) {
        const larger = new Uint8Array(MOST_HEAD);
        larger.set(this.#buffer);
        this.#buffer = larger;
      }
      const count = await this.conn.read(this.#buffer.subarray(this.#held));
      if (count === null) return undefined;
      this.#held += count;
    }
    const text = LATIN1.decode(this.#buffer.subarray(0, length));
    this.#buffer.copyWithin(0, length, this.#held);
    this.#held -= length;
    return text;
  }

  /** Ends the connection after reading all bytes: a close(2) with unread bytes would discard the answer. */
  async drain(): Promise<void> {
    await this.conn.closeWrite();
    const late = setTimeout(() => tryToClose(this.conn), DRAIN_MILLISECONDS);
    try {
      while (await this.conn.read(this.#buffer) !== null);
    } finally {
      clearTimeout(late);
    }
  }
}

export interface ServeOptions {
  /** For the log, for example `healthz`. */
  readonly name: string;
  readonly handler: HttpHandler;
  /** `bindAddressHardFail`: the first failure is final. */
  readonly hardFail: boolean;
  readonly listen: HttpListen;
  /** Called with each new reason why it cannot listen. */
  readonly failed?: (message: string) => void;
  readonly listening?: () => void;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Serves until the signal aborts. Binding is tried again every five seconds, unless `hardFail` is set.
 * @param address `0.0.0.0` and `::` are all addresses of both families, as in Go
 */
export async function serveHttp(address: ListenAddress, options: ServeOptions): Promise<void> {
  const { name, handler, hardFail, listen, failed, listening, clock, logger, signal } = options;
  const { port } = address;
  const hostname = address.hostname === "0.0.0.0" ? "::" : address.hostname;
  const where = hostPort(address.hostname, port);
  let lastReason: string | undefined;
  while (!signal.aborted) {
    try {
      const listener = listen({ hostname, port }, handler);
      const at = hostPort(address.hostname, listener.port);
      logger.debug(1, "listening", { server: name, address: at });
      listening?.();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return await listener.close();
    } catch (error) {
      const reason = messageOf(error);
      const message = `${name} server: cannot listen on ${where}: ${reason}`;
      if (reason !== lastReason) failed?.(message);
      if (hardFail) throw new Error(message, { cause: error });
      lastReason = reason;
    }
    await clock.sleep(RETRY_MILLISECONDS, signal);
  }
}

/** Milliseconds in which the former daemon answers while the new daemon is not ready. */
const HAND_OVER = 10_000;

interface Kept {
  readonly listener: HttpListener;
  handler: HttpHandler;
  /** True if the daemon that answered has ended. */
  isFree: boolean;
}

/** Keeps HTTP ports open while daemons follow one another, a daemon for each configuration. */
export class KeptServers {
  readonly #open = new Map<string, Kept>();

  constructor(
    private readonly options: {
      readonly listen: HttpListen;
      readonly clock: Pick<Clock, "sleep">;
    },
  ) {}

  /** Listens, or takes over an open port. The listener's `close` leaves the port to the next daemon. */
  readonly keep: HttpListen = (address, handler) => {
    const key = hostPort(address.hostname, address.port);
    const held = this.#open.get(key);
    const kept: Kept = held?.isFree ? held : {
      // If two servers of one daemon have the same address, bind(2) refuses the second server.
      listener: this.options.listen(address, (request) => kept.handler(request)),
      handler,
      isFree: false,
    };
    if (kept === held) kept.handler = this.#handOver(held.handler, handler);
    kept.isFree = false;
    this.#open.set(key, kept);
    const close = () => Promise.resolve(void (kept.isFree = true));
    return { port: kept.listener.port, close };
  };

  #handOver(before: HttpHandler, after: HttpHandler): HttpHandler {
    let former: HttpHandler | undefined = before;
    void this.options.clock.sleep(HAND_OVER).then(() => former = undefined);
    return async (request) => {
      const answer = await after(request);
      return answer.status === 503 && former ? former(request) : answer;
    };
  }

  /** Closes all ports. */
  async [Symbol.asyncDispose](): Promise<void> {
    const open = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(open.map(({ listener }) => listener.close()));
  }
}

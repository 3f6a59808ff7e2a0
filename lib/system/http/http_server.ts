/**
 * Adapter: a small HTTP/1.1 server for ports that face the network, over `Deno.listen`.
 *
 * `Deno.serve` speaks HTTP/2 to whoever begins with it, keeps idle connections for ever and as many
 * as there are descriptors; `node:http` can be limited and takes 13 MB of memory. This one answers
 * requests without a body, and limits connections and their time.
 *
 * @module
 */
import type {
  HttpAnswer,
  HttpHandler,
  HttpListener,
  HttpRequest,
  ListenAddress,
} from "../../model/ports/http.ts";
import { parseHead } from "../../model/ports/http_head.ts";
import { tryToClose } from "../close.ts";

/** How much the clients of a server may take. */
export interface HttpLimits {
  /** Open connections; a further one ends the one that has been idle for the longest time. */
  readonly connections: number;
  /** Milliseconds for a request to come in completely, and for its answer to go out. */
  readonly time: number;
}

/** Bytes of a request's head. */
const MAX_HEAD = 16 * 1024;

/** Milliseconds until the kernel is asked for connections again, after it had no descriptor free. */
const ACCEPT_PAUSE = 100;

/** Connections that share a limit, those that have waited longest first. */
export class ConnectionPool {
  readonly #limits: HttpLimits;
  readonly #open = new Set<Connection>();

  /** @param limits of all connections together */
  constructor(limits: HttpLimits) {
    this.#limits = limits;
  }

  /** How many connections are open. */
  get size(): number {
    return this.#open.size;
  }

  /** Takes a connection in and serves it to its end. */
  async serve(conn: Deno.Conn, handler: HttpHandler): Promise<void> {
    if (this.#open.size >= this.#limits.connections) this.#makeRoom();
    const connection = new Connection(conn, { handler, time: this.#limits.time });
    this.#open.add(connection);
    try {
      await connection.serve(() => {
        // To the end of the line: it has just been of use.
        this.#open.delete(connection);
        this.#open.add(connection);
      });
    } finally {
      this.#open.delete(connection);
    }
  }

  #makeRoom(): void {
    const all = [...this.#open];
    const victim = all.find(({ idle }) => idle) ?? all[0];
    victim?.close();
    if (victim) this.#open.delete(victim);
  }
}

/** One connection, request after request. */
class Connection {
  /** Whether it waits for a request. */
  idle = true;
  readonly #conn: Deno.Conn;
  readonly #handler: HttpHandler;
  readonly #time: number;
  #received = "";
  #closed = false;

  constructor(
    conn: Deno.Conn,
    { handler, time }: { readonly handler: HttpHandler; readonly time: number },
  ) {
    this.#conn = conn;
    this.#handler = handler;
    this.#time = time;
  }

  async serve(answered: () => void): Promise<void> {
    let timer = this.#deadline();
    try {
      while (await this.#next()) {
        clearTimeout(timer);
        timer = this.#deadline();
        answered();
      }
    } catch {
      // The client has gone, or was told to: no one is left to tell.
    } finally {
      clearTimeout(timer);
      this.close();
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    tryToClose(this.#conn);
  }

  #deadline(): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.close(), this.#time);
  }

  /** @returns whether another request may follow */
  async #next(): Promise<boolean> {
    this.idle = true;
    const text = await this.#readHead();
    if (text === undefined) return false;
    this.idle = false;
    const head = text === "too long" ? { status: 431 as const } : parseHead(text);
    if ("status" in head) {
      await this.#send(plain(head.status), { close: true });
      return false;
    }
    const answer = await this.#answer({ ...head.request, ...this.#client() });
    const close = head.hasBody || !head.keepAlive;
    await this.#send(answer, { close, headOnly: head.request.method === "HEAD" });
    return !close;
  }

  /** On a socket of both families, IPv4 clients are `::ffff:192.0.2.1`. */
  #client(): Partial<Pick<HttpRequest, "family">> {
    const { remoteAddr } = this.#conn;
    if (remoteAddr.transport !== "tcp") return {};
    return { family: remoteAddr.hostname.includes(".") ? 4 : 6 };
  }

  async #answer(request: Parameters<HttpHandler>[0]): Promise<HttpAnswer> {
    try {
      return await this.#handler(request);
    } catch {
      return plain(500);
    }
  }

  async #readHead(): Promise<string | "too long" | undefined> {
    const buffer = new Uint8Array(2048);
    for (;;) {
      const text = this.#received.replace(/^(?:\r\n)+/, "");
      const end = text.indexOf("\r\n\r\n");
      if (end >= 0) {
        this.#received = text.slice(end + 4);
        return text.slice(0, end);
      }
      // What is no HTTP/1 may never send an empty line.
      if (text.length > MAX_HEAD) return "too long";
      const read = await this.#conn.read(buffer);
      if (read === null) return undefined;
      this.#received = text + String.fromCharCode(...buffer.subarray(0, read));
    }
  }

  async #send(
    { status, headers, body }: HttpAnswer,
    { close, headOnly = false }: { readonly close: boolean; readonly headOnly?: boolean },
  ): Promise<void> {
    const encoder = new TextEncoder();
    const bytes = encoder.encode(body);
    const all = {
      ...headers,
      Date: new Date().toUTCString(),
      "Content-Length": `${bytes.length}`,
      Connection: close ? "close" : "keep-alive",
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const head = encoder.encode(`HTTP/1.1 ${status} ${REASONS[status] ?? "OK"}\r\n${lines}\r\n`);
    // At one go: between two writes, a daemon at work may do other work.
    await this.#write(headOnly ? head : joined(head, bytes));
    if (close) await this.#linger();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    for (let start = 0; start < bytes.length;) {
      start += await this.#conn.write(bytes.subarray(start));
    }
  }

  /** What the client still sends is read, or the kernel would take the answer back with a reset. */
  async #linger(): Promise<void> {
    await this.#conn.closeWrite();
    const buffer = new Uint8Array(4096);
    for (let rest = MAX_HEAD; rest > 0;) {
      const read = await this.#conn.read(buffer);
      if (read === null) return;
      rest -= read;
    }
  }
}

function joined(head: Uint8Array, body: Uint8Array): Uint8Array {
  const both = new Uint8Array(head.length + body.length);
  both.set(head);
  both.set(body, head.length);
  return both;
}

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  304: "Not Modified",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
  505: "HTTP Version Not Supported",
};

function plain(status: number): HttpAnswer {
  const body = `${(REASONS[status] ?? "error").toLowerCase()}\n`;
  return {
    status,
    headers: { "Content-Type": "text/plain; charset=utf-8" },
    body: status === 500 ? "internal error\n" : body,
  };
}

/**
 * Listens on one address.
 *
 * @throws {Deno.errors.AddrInUse} and other errors of bind(2)
 */
export function serveOn(
  { hostname, port }: ListenAddress,
  { handler, pool }: { readonly handler: HttpHandler; readonly pool: ConnectionPool },
): HttpListener {
  const listener = Deno.listen({ hostname, port });
  const own = new Set<Deno.Conn>();
  let closed = false;
  const close = () => {
    if (!closed) listener.close();
    closed = true;
    for (const conn of own) tryToClose(conn);
  };
  const accepting = (async () => {
    while (!closed) {
      const conn = await listener.accept().catch((error: unknown) => {
        // No descriptor or no memory is free, or the client has gone again: the port stays open.
        if (!closed && !(error instanceof Deno.errors.BadResource)) return pause();
        closed = true;
      });
      if (!conn) continue;
      own.add(conn);
      void pool.serve(conn, handler).finally(() => own.delete(conn));
    }
  })();
  return {
    port: listener.addr.port,
    finished: accepting,
    close: () => {
      close();
      return accepting;
    },
  };
}

function pause(): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), ACCEPT_PAUSE));
}
